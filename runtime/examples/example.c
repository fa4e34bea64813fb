/* The shortest way to a result: open an artifact, feed it, run it, read the first output.
 *
 *     example model.mcp26bin [input0.bin input1.bin ...]
 *
 * Each file holds one input as raw little-endian numbers; inputs without a file are zeros. Sizes must be fixed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "mcp26.h"

static int fail(const char *what, const char *message) {
    fprintf(stderr, "%s: %s\n", what, message);
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 2) return fail("usage", "example model.mcp26bin [input.bin ...]");

    mcp26_error error;
    mcp26_model *model;
    mcp26_session *session;
    if (mcp26_model_open(argv[1], NULL, &model, &error) != MCP26_OK) return fail(argv[1], error.message);
    if (mcp26_session_create(model, NULL, &session, &error) != MCP26_OK) return fail(argv[1], error.message);

    const mcp26_model_info *info = mcp26_model_get_info(model);
    for (uint32_t i = 0; i < info->input_count; i++) {
        const mcp26_tensor_info *input = mcp26_model_input(model, i);
        void *data = calloc(1, input->max_bytes > 0 ? (size_t)input->max_bytes : 1);
        if (data == NULL) return fail(input->name, "no memory");
        if (2 + i < (uint32_t)argc) {
            FILE *file = fopen(argv[2 + i], "rb");
            if (file == NULL || fread(data, 1, (size_t)input->max_bytes, file) != input->max_bytes)
                return fail(argv[2 + i], "cannot be read, or is too short");
            fclose(file);
        }
        if (mcp26_session_bind_input(session, i, input->dtype, input->dims, input->rank, data, input->max_bytes) !=
            MCP26_OK)
            return fail(input->name, mcp26_session_message(session));
    }

    if (mcp26_session_run(session) != MCP26_OK) return fail("run", mcp26_session_message(session));

    mcp26_view output;
    mcp26_session_output(session, 0, &output);
    printf("%s:", mcp26_model_output(model, 0)->name);
    if (output.dtype == MCP26_FLOAT32)
        for (uint64_t i = 0; i < output.bytes / sizeof(float) && i < 10; i++)
            printf(" %.6g", (double)((const float *)output.data)[i]);
    printf(" (%" PRIu64 " bytes)\n", output.bytes);

    mcp26_session_close(session);
    mcp26_model_close(model);
    return 0;
}

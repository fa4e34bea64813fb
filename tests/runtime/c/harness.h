/* harness.h: what tests are made of. `runtime_tests NAME ARTIFACTS` runs the one of that name: exit status 0 when all
 * its CHECKs hold. ARTIFACTS is the folder with demo, growing and foreign (see ../artifacts.py). */
#ifndef HARNESS_H
#define HARNESS_H

#include "mcp26.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define CHECK_STATUS(expected, call, message)                                                                          \
    do {                                                                                                               \
        int status_ = (int)(call);                                                                                     \
        if (status_ != (int)(expected)) {                                                                              \
            fprintf(stderr, "%s:%d: %s gave %d, not %d: %s\n", __FILE__, __LINE__, #call, status_, (int)(expected),    \
                    message);                                                                                          \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The path of an artifact in the folder; static storage. */
static inline const char *artifact(const char *folder, const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s.mcp26bin", folder, name);
    return path;
}

/* A file's bytes at an address aligned to 64; free() them. */
static inline uint8_t *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
    long length = ftell(file);
    CHECK(length >= 0 && fseek(file, 0, SEEK_SET) == 0);
    *size = (size_t)length;
    uint8_t *bytes = aligned_alloc(64, (*size + 127) / 64 * 64);
    CHECK(bytes != NULL && fread(bytes, 1, *size, file) == *size);
    fclose(file);
    return bytes;
}

static inline mcp26_model *open_model(const char *folder, const char *name) {
    mcp26_model *model;
    mcp26_error error;
    CHECK_STATUS(MCP26_OK, mcp26_model_open(artifact(folder, name), NULL, &model, &error), error.message);
    return model;
}

static inline mcp26_session *open_session(mcp26_model *model, uint32_t threads) {
    mcp26_session *session;
    mcp26_error error;
    mcp26_session_options options = {.struct_size = sizeof options, .threads = threads};
    CHECK_STATUS(MCP26_OK, mcp26_session_create(model, &options, &session, &error), error.message);
    return session;
}

/* All outputs of golden case 0 are as they should be. */
static inline void check_golden(mcp26_session *session, const mcp26_model *model) {
    CHECK_STATUS(MCP26_OK, mcp26_session_run_golden(session, 0), mcp26_session_message(session));
    for (uint32_t i = 0; i < mcp26_model_golden(model, 0)->output_count; i++) {
        CHECK_STATUS(MCP26_OK, mcp26_session_compare_golden(session, 0, i, NULL), mcp26_session_message(session));
    }
}

typedef struct {
    const char *name;
    void (*run)(const char *folder);
} test;

/* One list a file, each ended by zeros. */
extern const test open_tests[], session_tests[], pool_tests[];

#endif

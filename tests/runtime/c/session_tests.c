/* Sessions: memory, bindings, symbols, runs, faults, budgets. */
#define _GNU_SOURCE
#include "harness.h"

#include "model.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static const float X[8][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};

static void bind_x(mcp26_session *session, int64_t rows) {
    const int64_t shape[] = {rows, 4};
    CHECK_STATUS(MCP26_OK, mcp26_session_bind_input(session, 0, MCP26_FLOAT32, shape, 2, X, (uint64_t)rows * 16),
                 mcp26_session_message(session));
}

static void bind_index(mcp26_session *session, const int32_t *index, int64_t count) {
    CHECK_STATUS(MCP26_OK, mcp26_session_bind_input(session, 1, MCP26_INT32, &count, 1, index, (uint64_t)count * 4),
                 mcp26_session_message(session));
}

static int64_t runs(const mcp26_session *session) {
    mcp26_view view;
    CHECK(mcp26_session_output(session, 2, &view) == MCP26_OK && view.bytes == 8);
    return *(const int64_t *)view.data;
}

static void test_golden(const char *folder) {
    mcp26_model *model = open_model(folder, "demo");
    for (uint32_t threads = 1; threads <= 4; threads++) {
        mcp26_session *session = open_session(model, threads);
        CHECK(mcp26_session_threads(session) == threads);
        for (int i = 0; i < 50; i++) check_golden(session, model);
        mcp26_comparison result;
        int64_t *state = (int64_t *)(uintptr_t)mcp26_model_golden_output(model, 0, 2)->data;
        CHECK(*state == 1);
        CHECK(mcp26_session_run(session) == MCP26_OK && runs(session) == 2); /* state lives on */
        CHECK_STATUS(MCP26_ERR_GOLDEN, mcp26_session_compare_golden(session, 0, 2, &result), "");
        CHECK(result.mismatches == 1 && result.elements == 1 && result.worst_got == 2 && result.worst_want == 1);
        mcp26_session_reset_state(session);
        CHECK(mcp26_session_run(session) == MCP26_OK && runs(session) == 1);
        CHECK_STATUS(MCP26_ERR_ARGUMENT, mcp26_session_run_golden(session, 1), "");
        CHECK_STATUS(MCP26_ERR_ARGUMENT, mcp26_session_compare_golden(session, 0, 3, NULL), "");
        mcp26_session_close(session);
    }
    mcp26_model_close(model);
}

/* Computed inputs and sampled outputs: every element that is wrong is found, by itself or in its block's mean. */
static void test_drawn(const char *folder) {
    mcp26_model *model = open_model(folder, "drawn");
    mcp26_session *session = open_session(model, 2);
    CHECK(mcp26_model_golden_input(model, 0, 0)->data == NULL && mcp26_model_golden_output(model, 0, 0)->data == NULL);
    uint64_t bytes = mcp26_session_bytes(session);
    for (int i = 0; i < 3; i++) check_golden(session, model);
    CHECK(mcp26_session_bytes(session) == bytes + 128); /* x and index, each rounded up to 64 */
    for (uint32_t output = 0; output < 2; output++) {
        mcp26_comparison result;
        mcp26_view view;
        int of_mean = 0;
        CHECK(mcp26_session_output(session, output, &view) == MCP26_OK);
        float *data = (float *)(uintptr_t)view.data;
        for (uint64_t i = 0; i < view.bytes / sizeof *data; i++) {
            const float right = data[i];
            data[i] += 1;
            CHECK_STATUS(MCP26_ERR_GOLDEN, mcp26_session_compare_golden(session, 0, output, &result), "");
            CHECK(result.mismatches == 1 && result.elements == 3);
            CHECK(strstr(mcp26_session_message(session), "blocks differ") != NULL);
            if (strstr(mcp26_session_message(session), "a mean") == NULL) CHECK(result.worst_index == i);
            else of_mean++;
            data[i] = right;
        }
        CHECK(of_mean > 0);
        CHECK_STATUS(MCP26_OK, mcp26_session_compare_golden(session, 0, output, &result), "");
    }
    mcp26_session_close(session);
    mcp26_model_close(model);
}

static void expect_refusal(mcp26_session *session, mcp26_status expected, const char *word, mcp26_status status) {
    CHECK_STATUS(expected, status, mcp26_session_message(session));
    if (strstr(mcp26_session_message(session), word) == NULL) {
        fprintf(stderr, "'%s' is not in '%s'\n", word, mcp26_session_message(session));
        exit(1);
    }
}

static void test_refusals(const char *folder) {
    mcp26_model *model = open_model(folder, "demo");
    mcp26_session *session = open_session(model, 1);
    const int64_t good[] = {2, 4}, wide[] = {2, 5}, none[] = {0, 4}, many[] = {9, 4}, negative[] = {-2, 4};
    const int32_t index[1] = {0};
    expect_refusal(session, MCP26_ERR_MISSING_INPUT, "'x', input 'index'", mcp26_session_run(session));
    expect_refusal(session, MCP26_ERR_DTYPE, "expected float32, got float64",
                   mcp26_session_bind_input(session, 0, MCP26_FLOAT64, good, 2, X, 32));
    expect_refusal(session, MCP26_ERR_RANK, "rank 2 (Nx4), got rank 1",
                   mcp26_session_bind_input(session, 0, MCP26_FLOAT32, good, 1, X, 32));
    expect_refusal(session, MCP26_ERR_SHAPE, "dimension 1: expected 4, got 5",
                   mcp26_session_bind_input(session, 0, MCP26_FLOAT32, wide, 2, X, 40));
    expect_refusal(session, MCP26_ERR_SHAPE, "negative", mcp26_session_bind_input(session, 0, 0, negative, 2, X, 32));
    expect_refusal(session, MCP26_ERR_SYMBOL, "N must be at least 1 and at most 8, got 0",
                   mcp26_session_bind_input(session, 0, 0, none, 2, X, 0));
    expect_refusal(session, MCP26_ERR_SYMBOL, "got 9", mcp26_session_bind_input(session, 0, 0, many, 2, X, 144));
    expect_refusal(session, MCP26_ERR_BYTES, "takes 32 bytes, the buffer has 31",
                   mcp26_session_bind_input(session, 0, 0, good, 2, X, 31));
    expect_refusal(session, MCP26_ERR_ALIGNMENT, "'x'",
                   mcp26_session_bind_input(session, 0, 0, good, 2, (const char *)X + 1, 32));
    expect_refusal(session, MCP26_ERR_ARGUMENT, "no data", mcp26_session_bind_input(session, 0, 0, good, 2, NULL, 32));
    expect_refusal(session, MCP26_ERR_ARGUMENT, "the model has 2",
                   mcp26_session_bind_input(session, 2, 0, good, 2, X, 32));
    expect_refusal(session, MCP26_ERR_ARGUMENT, "the model has 3", mcp26_session_bind_output(session, 3, NULL, 0));
    expect_refusal(session, MCP26_ERR_ALIGNMENT, "'y'", mcp26_session_bind_output(session, 0, (char *)1, 64));
    bind_x(session, 2);
    expect_refusal(session, MCP26_ERR_MISSING_INPUT, "input 'index'", mcp26_session_run(session));
    bind_index(session, index, 1);
    CHECK_STATUS(MCP26_OK, mcp26_session_run(session), mcp26_session_message(session));
    CHECK(mcp26_session_message(session)[0] == 0);
    CHECK(mcp26_session_run(NULL) == MCP26_ERR_ARGUMENT && mcp26_session_plan(NULL) == MCP26_ERR_ARGUMENT);
    mcp26_session_close(session);
    mcp26_session_close(NULL);
    mcp26_model_close(model);
}

static void test_shapes_change(const char *folder) {
    mcp26_model *model = open_model(folder, "demo");
    mcp26_session *session = open_session(model, 1);
    const int32_t index[3] = {0, 0, 0};
    int64_t shape[2] = {0, 0};
    mcp26_view view;
    CHECK(mcp26_session_output_shape(session, 0, shape) == MCP26_OK && shape[0] == -1 && shape[1] == 4);
    for (int64_t rows = 1; rows <= 8; rows++) {
        bind_x(session, rows);
        bind_index(session, index, rows % 4);
        CHECK_STATUS(MCP26_OK, mcp26_session_plan(session), mcp26_session_message(session));
        CHECK(mcp26_session_output_shape(session, 0, shape) == MCP26_OK && shape[0] == rows);
        CHECK_STATUS(MCP26_OK, mcp26_session_run(session), mcp26_session_message(session));
        CHECK(mcp26_session_output(session, 1, &view) == MCP26_OK && view.shape[0] == rows % 4);
        CHECK(view.bytes == (uint64_t)(rows % 4) * 16 && view.dtype == MCP26_FLOAT32 && view.rank == 2);
    }
    CHECK(mcp26_session_output(session, 3, &view) == MCP26_ERR_ARGUMENT);
    mcp26_session_close(session);
    mcp26_model_close(model);
}

static void test_bound_outputs(const char *folder) {
    mcp26_model *model = open_model(folder, "demo");
    mcp26_session *session = open_session(model, 2);
    const int32_t index[1] = {1};
    float mine[8][4];
    mcp26_view view;
    memset(mine, 0xff, sizeof mine);
    bind_x(session, 2);
    bind_index(session, index, 1);
    CHECK(mcp26_session_bind_output(session, 0, mine, 31) == MCP26_OK);
    expect_refusal(session, MCP26_ERR_BYTES, "output 'y' takes 32 bytes, its buffer has 31",
                   mcp26_session_run(session));
    CHECK(mcp26_session_bind_output(session, 0, mine, 32) == MCP26_OK);
    CHECK_STATUS(MCP26_OK, mcp26_session_run(session), mcp26_session_message(session));
    CHECK(mcp26_session_output(session, 0, &view) == MCP26_OK && view.data == mine);
    CHECK(mcp26_session_bind_output(session, 0, NULL, 0) == MCP26_OK);
    CHECK_STATUS(MCP26_OK, mcp26_session_run(session), mcp26_session_message(session));
    CHECK(mcp26_session_output(session, 0, &view) == MCP26_OK && view.data != mine);
    CHECK(memcmp(view.data, mine, 32) == 0);
    uint8_t untouched[16];
    memset(untouched, 0xff, sizeof untouched);
    CHECK(memcmp(mine[2], untouched, 16) == 0);
    mcp26_session_close(session);
    mcp26_model_close(model);
}

static void test_faults(const char *folder) {
    mcp26_model *model = open_model(folder, "demo");
    mcp26_session *session = open_session(model, 1);
    int32_t index[2] = {1, 2};
    bind_x(session, 2);
    bind_index(session, index, 2);
    expect_refusal(session, MCP26_ERR_DATA, "step 1 (pick): index 2 is outside [-2, 2)", mcp26_session_run(session));
    index[1] = -2;
    CHECK_STATUS(MCP26_OK, mcp26_session_run(session), mcp26_session_message(session));
    index[0] = 78;
    expect_refusal(session, MCP26_ERR_STEP, "step 0 (scale) returned 5", mcp26_session_run(session));
    index[0] = 79;
    expect_refusal(session, MCP26_ERR_STEP, "returned -77", mcp26_session_run(session));
    mcp26_session_close(session);
    mcp26_model_close(model);
}

static void *cancel_soon(void *session) {
    usleep(20000);
    mcp26_session_cancel(session);
    return NULL;
}

static void test_cancel(const char *folder) {
    mcp26_model *model = open_model(folder, "demo");
    mcp26_session *session = open_session(model, 1);
    int32_t index[1] = {77};
    pthread_t thread;
    bind_x(session, 1);
    bind_index(session, index, 1);
    CHECK(pthread_create(&thread, NULL, cancel_soon, session) == 0);
    expect_refusal(session, MCP26_ERR_CANCELLED, "cancelled in step 0 (scale)", mcp26_session_run(session));
    pthread_join(thread, NULL);
    index[0] = 0;
    CHECK_STATUS(MCP26_OK, mcp26_session_run(session), mcp26_session_message(session));
    mcp26_session_cancel(session); /* with no run under way, the next one ends */
    CHECK_STATUS(MCP26_ERR_CANCELLED, mcp26_session_run(session), "");
    CHECK_STATUS(MCP26_OK, mcp26_session_run(session), mcp26_session_message(session));
    mcp26_session_close(session);
    mcp26_model_close(model);
}

static void test_profile(const char *folder) {
    mcp26_model *model = open_model(folder, "demo");
    mcp26_session *session = open_session(model, 1);
    check_golden(session, model);
    const uint64_t *nanoseconds = mcp26_session_profile_ns(session);
    for (int i = 0; i < 4; i++) CHECK(nanoseconds[i] == 0);
    CHECK(mcp26_session_profile(session, 1) == MCP26_OK);
    uint64_t total = 0;
    for (int run = 0; run < 100; run++) {
        check_golden(session, model);
        for (int i = 0; i < 4; i++) total += nanoseconds[i];
    }
    CHECK(total > 0);
    mcp26_session_close(session);
    mcp26_model_close(model);
}

static void test_given_memory(const char *folder) {
    mcp26_model *model = open_model(folder, "demo");
    mcp26_error error;
    mcp26_session *session;
    mcp26_session_options options = {.struct_size = sizeof options, .threads = 3};
    uint64_t size = mcp26_session_size(model, &options);
    CHECK(size > 0 && size < 65536);
    uint8_t *memory = aligned_alloc(64, size + 64);
    memset(memory, 0xa5, size + 64);
    options.memory = memory;
    options.memory_size = size - 1;
    CHECK_STATUS(MCP26_ERR_MEMORY, mcp26_session_create(model, &options, &session, &error), error.message);
    options.memory_size = size;
    CHECK_STATUS(MCP26_OK, mcp26_session_create(model, &options, &session, &error), error.message);
    CHECK(mcp26_session_bytes(session) == size);
    check_golden(session, model);
    mcp26_session_close(session);
    for (int i = 0; i < 64; i++) CHECK(memory[size + (size_t)i] == 0xa5);
    options.memory = memory + 8;
    CHECK_STATUS(MCP26_ERR_ALIGNMENT, mcp26_session_create(model, &options, &session, &error), error.message);
    options.affinity = 3;
    CHECK(mcp26_session_size(model, &options) == 0);
    CHECK_STATUS(MCP26_ERR_ARGUMENT, mcp26_session_create(model, &options, &session, &error), error.message);
    free(memory);
    mcp26_model_close(model);
}

/* KiB of the demo artifact's read-only mapping that this process has in memory; -1 where the system does not say. */
static long resident_kib(void) {
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[4096];
    long resident = -1, inside = 0;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        if (strstr(line, "-p ") != NULL) inside = strstr(line, "r--p") != NULL && strstr(line, "demo.mcp26bin") != NULL;
        if (inside && sscanf(line, "Rss: %ld", &resident) == 1) break;
    }
    if (maps != NULL) fclose(maps);
    return resident;
}

static void test_budget(const char *folder) {
    mcp26_model *model = open_model(folder, "demo");
    mcp26_error error;
    mcp26_session *session;
    mcp26_session_options options = {.struct_size = sizeof options, .threads = 1};
    uint64_t size = mcp26_session_size(model, &options);
    options.memory_budget = size + 199999;
    CHECK_STATUS(MCP26_ERR_MEMORY, mcp26_session_create(model, &options, &session, &error), error.message);
    CHECK(session == NULL && strstr(error.message, "200000") != NULL);
    for (uint64_t i = 0; i < model->file.size; i += 4096) (void)((const volatile uint8_t *)model->file.bytes)[i];
    long all = resident_kib();
    mcp26_os_file_release(model->file.bytes, model->file.size);
    if (resident_kib() >= all) all = 0; /* this system, an emulator, does not take pages away */
    for (uint64_t shards = 1; shards <= 4; shards++) {
        options.memory_budget = size + shards * 200000;
        CHECK_STATUS(MCP26_OK, mcp26_session_create(model, &options, &session, &error), error.message);
        for (int i = 0; i < 10; i++) check_golden(session, model);
        CHECK(all <= 0 || resident_kib() <= all - (long)(4 - shards) * 190);
        mcp26_session_close(session);
    }
    mcp26_model_close(model);
}

static void test_growing(const char *folder) {
    mcp26_model *model = open_model(folder, "growing");
    mcp26_session *session = open_session(model, 1);
    enum { LENGTH = 5000 };
    static int32_t values[LENGTH];
    mcp26_view view;
    CHECK(mcp26_model_get_info(model)->unbounded == 1);
    check_golden(session, model);
    for (int64_t length = LENGTH; length > 0; length /= 3) {
        int64_t expected = 0;
        for (int64_t i = 0; i < length; i++) expected += (values[i] = (int32_t)(i * length % 7)) != 0;
        CHECK_STATUS(MCP26_OK, mcp26_session_bind_input(session, 0, 0, &length, 1, values, (uint64_t)length * 4), "");
        CHECK_STATUS(MCP26_OK, mcp26_session_run(session), mcp26_session_message(session));
        CHECK(mcp26_session_output(session, 0, &view) == MCP26_OK && view.shape[0] == expected);
        const int64_t *found = view.data;
        for (int64_t i = 0, k = 0; i < length; i++) {
            if (values[i] != 0) CHECK(found[k++] == i);
        }
    }
    int64_t few[2], length = 5;
    const int32_t ones[5] = {1, 1, 1, 1, 1};
    CHECK(mcp26_session_bind_output(session, 0, few, sizeof few) == MCP26_OK);
    CHECK(mcp26_session_bind_input(session, 0, 0, &length, 1, ones, 20) == MCP26_OK);
    expect_refusal(session, MCP26_ERR_BYTES, "takes 40 bytes, its buffer has 16", mcp26_session_run(session));
    mcp26_session_close(session);

    mcp26_session_options options = {.struct_size = sizeof options, .threads = 1};
    options.memory_budget = mcp26_session_size(model, &options) + 1000;
    length = LENGTH;
    for (int i = 0; i < LENGTH; i++) values[i] = 1;
    CHECK(mcp26_session_create(model, &options, &session, NULL) == MCP26_OK);
    CHECK(mcp26_session_bind_input(session, 0, 0, &length, 1, values, LENGTH * 4) == MCP26_OK);
    CHECK_STATUS(MCP26_ERR_MEMORY, mcp26_session_run(session), "");
    mcp26_session_close(session);
    mcp26_model_close(model);
}

static void *run_many(void *argument) {
    mcp26_model *model = argument;
    mcp26_session *session = open_session(model, 2);
    for (int i = 0; i < 300; i++) check_golden(session, model);
    mcp26_session_close(session);
    return NULL;
}

static void test_sessions_at_once(const char *folder) {
    mcp26_model *model;
    mcp26_model_options options = {sizeof options, MCP26_VERIFY_LAZY};
    CHECK(mcp26_model_open(artifact(folder, "demo"), &options, &model, NULL) == MCP26_OK);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, run_many, model) == 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    mcp26_session *last = open_session(model, 1);
    mcp26_model_close(model); /* the session keeps the file open */
    check_golden(last, model);
    mcp26_session_close(last);
}

static void test_fork(const char *folder) {
    mcp26_model *model = open_model(folder, "demo");
    mcp26_session *session = open_session(model, 4);
    check_golden(session, model);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int i = 0; i < 10; i++) check_golden(session, model);
        mcp26_session_close(session);
        mcp26_model_close(model);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_golden(session, model);
    mcp26_session_close(session);
    mcp26_model_close(model);
}

static void test_affinity(const char *folder) {
    mcp26_model *model = open_model(folder, "demo");
    for (uint32_t affinity = MCP26_AFFINITY_ALL; affinity <= MCP26_AFFINITY_LITTLE; affinity++) {
        mcp26_session *session;
        mcp26_session_options options = {.struct_size = sizeof options, .affinity = affinity};
        CHECK(mcp26_session_create(model, &options, &session, NULL) == MCP26_OK);
        CHECK(mcp26_session_threads(session) >= 1);
        check_golden(session, model);
        mcp26_session_close(session);
    }
    CHECK(mcp26_place_thread(MCP26_AFFINITY_BIG) == MCP26_OK && mcp26_place_thread(9) == MCP26_ERR_ARGUMENT);
    mcp26_model_close(model);
}

const test session_tests[] = {
    {"golden", test_golden},
    {"drawn", test_drawn},
    {"refusals", test_refusals},
    {"shapes_change", test_shapes_change},
    {"bound_outputs", test_bound_outputs},
    {"faults", test_faults},
    {"cancel", test_cancel},
    {"profile", test_profile},
    {"given_memory", test_given_memory},
    {"budget", test_budget},
    {"growing", test_growing},
    {"sessions_at_once", test_sessions_at_once},
    {"fork", test_fork},
    {"affinity", test_affinity},
    {0},
};

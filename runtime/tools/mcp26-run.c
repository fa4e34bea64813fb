/* mcp26-run: the device's tool. Checks an artifact against the golden data inside it, and times it. */
#define _POSIX_C_SOURCE 200809L
#include "mcp26.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EXIT_CHECK = 1, EXIT_USAGE = 2, EXIT_ARTIFACT = 5, MAX_SIZES = 32 };

static const char USAGE[] =
    "usage: mcp26-run ARTIFACT [options]\n"
    "\n"
    "  --selftest          run the golden cases inside the artifact and compare\n"
    "  --bench N           time N runs (on the first golden case's inputs; on zeros where there is none)\n"
    "  --dim NAME=VALUE    with --bench: a symbolic size (repeatable); the inputs are zeros then\n"
    "  --profile           with --bench: time each step as well, in runs of their own\n"
    "  --threads N         threads, this one included (default 1; 0: one a core)\n"
    "  --affinity KIND     all, big or little cores (default all)\n"
    "  --memory-budget N   bytes to stay within; weights are released behind the step that read them\n"
    "  --verify KIND       checksums, lazy or full: SHA-256 of weights never, at first use, of everything at open\n"
    "\n"
    "Without --selftest and --bench it says what the artifact is.\n"
    "Exit status: 0 done, 1 a check failed, 2 usage, 5 the artifact is at fault.\n"
    "Example: mcp26-run net.mcp26bin --selftest --bench 100 --threads 4 --affinity big\n";

/* NAME=VALUE: the name is the text's first `length` bytes. */
typedef struct {
    const char *text;
    size_t length;
    int64_t value;
} chosen_size;

typedef struct {
    const char *path;
    int selftest, profile;
    uint32_t runs, size_count;
    chosen_size sizes[MAX_SIZES];
    mcp26_session_options session;
    mcp26_model_options model;
} arguments;

/* A number below 2^63, or exit. */
static uint64_t number(const char *option, const char *text) {
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == 0 && value <= INT64_MAX) return value;
    fprintf(stderr, "mcp26-run: %s wants a number, not '%s'\n", option, text);
    exit(EXIT_USAGE);
}

static uint32_t small_number(const char *option, const char *text) {
    uint64_t value = number(option, text);
    if (value <= UINT32_MAX) return (uint32_t)value;
    fprintf(stderr, "mcp26-run: %s: %s is too large\n", option, text);
    exit(EXIT_USAGE);
}

/* Which of three words the text is, or exit. */
static uint32_t word(const char *option, const char *text, const char *const words[3]) {
    for (uint32_t i = 0; i < 3; i++) {
        if (strcmp(text, words[i]) == 0) return i;
    }
    fprintf(stderr, "mcp26-run: %s wants %s, %s or %s, not '%s'\n", option, words[0], words[1], words[2], text);
    exit(EXIT_USAGE);
}

static chosen_size size_option(const char *option, const char *text) {
    const char *equals = strrchr(text, '='); /* a name may hold one */
    if (equals == NULL || equals == text) {
        fprintf(stderr, "mcp26-run: %s wants NAME=VALUE, not '%s'\n", option, text);
        exit(EXIT_USAGE);
    }
    return (chosen_size){text, (size_t)(equals - text), (int64_t)number(option, equals + 1)};
}

static arguments parse(int count, char **values) {
    static const char *const AFFINITIES[] = {"all", "big", "little"}, *const VERIFICATIONS[] = {"checksums", "lazy",
                                                                                                "full"};
    arguments parsed = {.session = {.struct_size = sizeof parsed.session, .threads = 1},
                        .model = {.struct_size = sizeof parsed.model}};
    for (int i = 1; i < count; i++) {
        const char *name = values[i], *value = i + 1 < count ? values[i + 1] : NULL;
        if (strcmp(name, "--help") == 0) {
            fputs(USAGE, stdout);
            exit(0);
        }
        if (strcmp(name, "--selftest") == 0) {
            parsed.selftest = 1;
        } else if (strcmp(name, "--profile") == 0) {
            parsed.profile = 1;
        } else if (name[0] != '-' && parsed.path == NULL) {
            parsed.path = name;
        } else if (name[0] != '-' || value == NULL) {
            fprintf(stderr, "mcp26-run: unexpected argument '%s', or its value is missing\n%s", name, USAGE);
            exit(EXIT_USAGE);
        } else {
            i++;
            if (strcmp(name, "--bench") == 0) parsed.runs = small_number(name, value);
            else if (strcmp(name, "--dim") == 0 && parsed.size_count < MAX_SIZES)
                parsed.sizes[parsed.size_count++] = size_option(name, value);
            else if (strcmp(name, "--threads") == 0) parsed.session.threads = small_number(name, value);
            else if (strcmp(name, "--affinity") == 0) parsed.session.affinity = word(name, value, AFFINITIES);
            else if (strcmp(name, "--memory-budget") == 0) parsed.session.memory_budget = number(name, value);
            else if (strcmp(name, "--verify") == 0) parsed.model.verify = word(name, value, VERIFICATIONS);
            else {
                fprintf(stderr, "mcp26-run: no such option: %s\n%s", name, USAGE);
                exit(EXIT_USAGE);
            }
        }
    }
    if (parsed.path == NULL) {
        fputs(USAGE, stderr);
        exit(EXIT_USAGE);
    }
    return parsed;
}

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void print_tensor(const char *kind, const mcp26_tensor_info *info) {
    printf("%-8s %s: %s", kind, info->name, mcp26_dtype_name(info->dtype));
    for (uint32_t d = 0; d < info->rank; d++) {
        printf("%c", d == 0 ? ' ' : 'x');
        if (info->dims[d] >= 0) printf("%" PRId64, info->dims[d]);
        else printf("%s", info->dim_texts[d]);
    }
    printf("%s\n", info->has_default ? " (optional)" : "");
}

static void describe(const mcp26_model *model) {
    const mcp26_model_info *info = mcp26_model_get_info(model);
    printf("model    %s for %s, code variant %s (%s)\n", info->name, info->target, info->variant, info->isa);
    printf("format   %u.%u, runtime %d.%d\n", info->format_major, info->format_minor, MCP26_VERSION_MAJOR,
           MCP26_VERSION_MINOR);
    printf("bytes    file %" PRIu64 ", weights %" PRIu64 ", code %" PRIu64 ", arena %" PRIu64 "%s\n", info->file_bytes,
           info->weights_bytes, info->code_bytes, info->arena_bytes, info->unbounded ? " and growing" : "");
    printf("steps    %u, golden cases %u\n", info->step_count, info->golden_count);
    for (uint32_t i = 0; i < info->symbol_count; i++) {
        const mcp26_symbol_info *symbol = mcp26_model_symbol(model, i);
        printf("size     %s: at least %" PRId64, symbol->name, symbol->min);
        if (symbol->max >= 0) printf(", at most %" PRId64, symbol->max);
        printf("\n");
    }
    for (uint32_t i = 0; i < info->input_count; i++) print_tensor("input", mcp26_model_input(model, i));
    for (uint32_t i = 0; i < info->output_count; i++) print_tensor("output", mcp26_model_output(model, i));
}

/* One line an output; the number of outputs that differ, or -1 where a run failed. */
static int selftest(const mcp26_model *model, mcp26_session *session) {
    uint32_t cases = mcp26_model_get_info(model)->golden_count;
    int differing = 0;
    if (cases == 0) {
        fprintf(stderr, "mcp26-run: the artifact holds no golden data: compile it with --golden 1\n");
        return -1;
    }
    for (uint32_t golden = 0; golden < cases; golden++) {
        const mcp26_golden_case *info = mcp26_model_golden(model, golden);
        if (mcp26_session_run_golden(session, golden) != MCP26_OK) {
            fprintf(stderr, "mcp26-run: golden case %u: %s\n", golden, mcp26_session_message(session));
            return -1;
        }
        for (uint32_t i = 0; i < info->output_count; i++) {
            mcp26_comparison result;
            mcp26_status status = mcp26_session_compare_golden(session, golden, i, &result);
            const mcp26_golden_tensor *want = mcp26_model_golden_output(model, golden, i);
            printf("case %u output %s: %s, %" PRIu64 " %s, %" PRIu64
                   " differ, max difference %g (rtol %g, atol %g)\n",
                   golden, mcp26_model_output(model, want->index)->name, status == MCP26_OK ? "ok" : "FAILED",
                   result.elements, want->data != NULL ? "elements" : "blocks", result.mismatches,
                   result.max_abs_difference, (double)info->rtol, (double)info->atol);
            if (status == MCP26_OK) continue;
            fprintf(stderr, "mcp26-run: %s\n", mcp26_session_message(session));
            differing++;
        }
    }
    return differing;
}

static int is_called(const mcp26_symbol_info *symbol, const chosen_size *size) {
    return strlen(symbol->name) == size->length && memcmp(symbol->name, size->text, size->length) == 0;
}

/* The value that is wanted of a symbolic size, else as small as allowed. */
static int64_t size_of(const mcp26_symbol_info *symbol, const arguments *wanted) {
    if (symbol == NULL) return 1;
    for (uint32_t i = 0; i < wanted->size_count; i++) {
        if (is_called(symbol, &wanted->sizes[i])) return wanted->sizes[i].value;
    }
    return symbol->min > 1 ? symbol->min : 1;
}

/* Or exit. */
static void check_sizes(const mcp26_model *model, const arguments *wanted) {
    uint32_t count = mcp26_model_get_info(model)->symbol_count;
    for (uint32_t i = 0; i < wanted->size_count; i++) {
        uint32_t s = 0;
        while (s < count && !is_called(mcp26_model_symbol(model, s), &wanted->sizes[i])) s++;
        if (s < count) continue;
        fprintf(stderr, "mcp26-run: --dim %s: the model has no such size; it has", wanted->sizes[i].text);
        for (s = 0; s < count; s++) fprintf(stderr, "%s %s", s == 0 ? "" : ",", mcp26_model_symbol(model, s)->name);
        fprintf(stderr, "%s\n", count == 0 ? " none" : "");
        exit(EXIT_USAGE);
    }
}

/* Zeros for an input. */
static mcp26_status bind_zeros(const mcp26_model *model, mcp26_session *session, uint32_t index,
                               const arguments *wanted) {
    const mcp26_tensor_info *info = mcp26_model_input(model, index);
    int64_t *shape = calloc(info->rank + 1u, sizeof *shape);
    uint64_t bits = mcp26_dtype_bits(info->dtype);
    int is_too_large = 0;
    for (uint32_t d = 0; shape != NULL && d < info->rank; d++) {
        const mcp26_symbol_info *symbol = mcp26_model_symbol(model, (uint32_t)info->dim_symbols[d]);
        shape[d] = info->dims[d] >= 0 ? info->dims[d] : size_of(symbol, wanted);
        is_too_large |= shape[d] > 0 && bits > UINT64_MAX / 2 / (uint64_t)shape[d];
        bits *= (uint64_t)shape[d];
    }
    uint64_t bytes = (bits + 7) / 8;
    void *zeros = is_too_large ? NULL : calloc(bytes + 1, 1); /* stays bound until the process ends */
    mcp26_status status = MCP26_ERR_MEMORY;
    if (shape != NULL && zeros != NULL) {
        status = mcp26_session_bind_input(session, index, info->dtype, shape, info->rank, zeros, bytes);
    }
    free(shape);
    return status;
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Mean time of each step over the same number of runs. */
static mcp26_status print_profile(const mcp26_model *model, mcp26_session *session, uint32_t runs) {
    uint32_t count = mcp26_model_get_info(model)->step_count;
    double *sums = calloc(count + 1u, sizeof *sums);
    if (sums == NULL) return MCP26_ERR_MEMORY;
    mcp26_status status = mcp26_session_profile(session, 1);
    for (uint32_t run = 0; run < runs && status == MCP26_OK; run++) {
        status = mcp26_session_run(session);
        const uint64_t *nanoseconds = mcp26_session_profile_ns(session);
        for (uint32_t i = 0; i < count; i++) sums[i] += (double)nanoseconds[i];
    }
    if (status == MCP26_OK) printf("%10s %10s  %-20s %-28s %s\n", "us", "predicted", "output", "kernel", "step");
    for (uint32_t i = 0; i < count && status == MCP26_OK; i++) {
        const mcp26_step_info *step = mcp26_model_step(model, i);
        printf("%10.1f %10.1f  %-20s %-28s %s\n", sums[i] / runs / 1e3, (double)step->predicted_us, step->shape,
               step->kernel, step->name);
    }
    free(sums);
    (void)mcp26_session_profile(session, 0);
    return status;
}

static mcp26_status bench(const mcp26_model *model, mcp26_session *session, const arguments *wanted, double open_ms) {
    const mcp26_model_info *info = mcp26_model_get_info(model);
    mcp26_status status = MCP26_OK;
    double start = milliseconds(), first;
    check_sizes(model, wanted);
    if (info->golden_count > 0 && wanted->size_count == 0) {
        status = mcp26_session_run_golden(session, 0);
        first = milliseconds() - start;
    } else {
        for (uint32_t i = 0; i < info->input_count && status == MCP26_OK; i++) {
            if (!mcp26_model_input(model, i)->has_default) status = bind_zeros(model, session, i, wanted);
        }
        start = milliseconds();
        if (status == MCP26_OK) status = mcp26_session_run(session);
        first = milliseconds() - start;
    }
    double *times = calloc(wanted->runs, sizeof *times);
    if (times == NULL) return MCP26_ERR_MEMORY;
    for (uint32_t i = 0; i < wanted->runs && status == MCP26_OK; i++) {
        start = milliseconds();
        status = mcp26_session_run(session);
        times[i] = milliseconds() - start;
    }
    if (status == MCP26_OK) {
        qsort(times, wanted->runs, sizeof *times, ascending);
        uint32_t last = wanted->runs - 1;
        printf("ms: min %.4f, p50 %.4f, p90 %.4f, p99 %.4f over %u runs on %u threads; open %.3f, first run %.3f\n",
               times[0], times[last / 2], times[(uint64_t)last * 9 / 10], times[(uint64_t)last * 99 / 100],
               wanted->runs, mcp26_session_threads(session), open_ms, first);
        if (wanted->profile) status = print_profile(model, session, wanted->runs);
    }
    free(times);
    return status;
}

int main(int count, char **values) {
    const arguments wanted = parse(count, values);
    mcp26_error error;
    mcp26_model *model;
    mcp26_session *session;
    double start = milliseconds();
    if (mcp26_model_open(wanted.path, &wanted.model, &model, &error) != MCP26_OK) {
        fprintf(stderr, "mcp26-run: %s: %s\n", wanted.path, error.message);
        return EXIT_ARTIFACT;
    }
    if (wanted.session.affinity != MCP26_AFFINITY_ALL && mcp26_place_thread(wanted.session.affinity) != MCP26_OK) {
        fprintf(stderr, "mcp26-run: the system refused to move this thread; it runs where it is\n");
    }
    if (mcp26_session_create(model, &wanted.session, &session, &error) != MCP26_OK) {
        fprintf(stderr, "mcp26-run: %s: %s\n", wanted.path, error.message);
        mcp26_model_close(model);
        return EXIT_CHECK;
    }
    double open_ms = milliseconds() - start;
    int status = 0;
    if (!wanted.selftest && wanted.runs == 0) describe(model);
    if (wanted.selftest && selftest(model, session) != 0) status = EXIT_CHECK;
    if (wanted.runs > 0 && status == 0 && bench(model, session, &wanted, open_ms) != MCP26_OK) {
        const char *message = mcp26_session_message(session);
        fprintf(stderr, "mcp26-run: %s\n", message[0] != 0 ? message : "no memory for the inputs");
        status = EXIT_CHECK;
    }
    mcp26_session_close(session);
    mcp26_model_close(model);
    return status;
}

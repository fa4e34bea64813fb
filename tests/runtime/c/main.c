#include "harness.h"

int main(int argc, char **argv) {
    const test *const lists[] = {open_tests, session_tests, pool_tests};
    if (argc != 3) return 2;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        for (const test *candidate = lists[i]; candidate->name != NULL; candidate++) {
            if (strcmp(candidate->name, argv[1]) != 0) continue;
            candidate->run(argv[2]);
            return 0;
        }
    }
    fprintf(stderr, "no test %s\n", argv[1]);
    return 2;
}

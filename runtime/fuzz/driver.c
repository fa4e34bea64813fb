/* A main for fuzz targets where there is no libFuzzer:
 *
 *     open_run FILE...                      run the target on files, e.g. found crashes
 *     open_run --mutate N --seed S FILE     run it on N random changes of a file, the same ones for the same seed
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* splitmix64 */
static uint64_t random_number(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint8_t *load(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    long length = -1;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) length = ftell(file);
    if (length >= 0 && fseek(file, 0, SEEK_SET) == 0) bytes = malloc((size_t)length + 1);
    if (bytes == NULL || fread(bytes, 1, (size_t)length, file) != (size_t)length) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    fclose(file);
    *size = (size_t)length;
    return bytes;
}

/* Numbers at which bounds checks go wrong. */
static uint64_t interesting(uint64_t *state, uint64_t size) {
    const uint64_t numbers[] = {0,          1,          0x7f,       0xff,      0x7fff,     0xffff,
                                0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, UINT64_MAX, size};
    uint64_t number = numbers[random_number(state) % (sizeof numbers / sizeof *numbers)];
    return number + random_number(state) % 9 - 4;
}

/* Change a few places: half of them near the start and the end, where artifacts have header, table and metadata. */
static size_t mutate(uint8_t *bytes, size_t size, uint64_t *state) {
    if (size == 0) return 0;
    uint64_t changes = 1 + random_number(state) % 6;
    for (uint64_t i = 0; i < changes; i++) {
        size_t at = random_number(state) % size, near = random_number(state) % 4096;
        uint64_t where = random_number(state) % 4;
        if (where == 0 && near < size) at = near;
        if (where == 1 && near < size) at = size - 1 - near;
        if (random_number(state) % 2 == 0) {
            bytes[at] ^= (uint8_t)(1 << random_number(state) % 8);
        } else {
            uint64_t number = interesting(state, size);
            size_t width = (size_t)1 << random_number(state) % 4;
            if (at + width <= size) memcpy(bytes + at, &number, width);
        }
    }
    return random_number(state) % 50 == 0 ? random_number(state) % size : size;
}

int main(int argc, char **argv) {
    if (argc == 6 && strcmp(argv[1], "--mutate") == 0 && strcmp(argv[3], "--seed") == 0) {
        size_t size;
        uint8_t *original = load(argv[5], &size), *copy = malloc(size + 1);
        uint64_t count = strtoull(argv[2], NULL, 10), state = strtoull(argv[4], NULL, 10);
        if (copy == NULL) return 2;
        for (uint64_t i = 0; i < count; i++) {
            memcpy(copy, original, size);
            LLVMFuzzerTestOneInput(copy, mutate(copy, size, &state));
        }
        free(copy);
        free(original);
        return 0;
    }
    if (argc < 2 || argv[1][0] == '-') {
        fprintf(stderr, "usage: %s FILE... | --mutate N --seed S FILE\n", argv[0]);
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        size_t size;
        uint8_t *bytes = load(argv[i], &size);
        LLVMFuzzerTestOneInput(bytes, size);
        free(bytes);
    }
    return 0;
}

/* instructions.c: a plug-in of qemu's user mode that counts the instructions a program retires, block by block.
 *
 *     qemu-aarch64 -plugin instructions.so,out=FILE PROGRAM ...
 *
 * At the end FILE has a line a translated block, `instructions offset path`: how many of its instructions ran, and
 * where in which mapped file the block lies. One thread: counters are plain. The calls of the plug-in interface are
 * declared by hand, since distributions package no header of it (version 1 of the interface, qemu 4.2 to 8.2).
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { INLINE_ADD_U64 = 0, MAX_FILES = 64, MAX_PATH = 512 };
typedef uint64_t plugin_id;
struct block;
struct instruction;
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*translated)(plugin_id id, struct block *block));
void qemu_plugin_register_vcpu_tb_exec_inline(struct block *block, int operation, void *counter, uint64_t value);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*ended)(plugin_id id, void *data), void *data);
size_t qemu_plugin_tb_n_insns(const struct block *block);
struct instruction *qemu_plugin_tb_get_insn(const struct block *block, size_t index);
void *qemu_plugin_insn_haddr(const struct instruction *instruction);

EXPORT int qemu_plugin_version = 1;

/* A file that is mapped at the host's addresses begin ... end-1. */
typedef struct {
    uintptr_t begin, end, offset;
    char path[MAX_PATH];
} mapped_file;

typedef struct counter {
    struct counter *next;
    uint64_t instructions;
    uintptr_t offset;
    const char *path;
} counter;

static mapped_file files[MAX_FILES];
static int file_count;
static counter *counters;
static FILE *output;

/* The mapping that holds the address, NULL where no file does. A file that is gone stays in the list, so that its blocks
 * keep their place. */
static const mapped_file *find_file(uintptr_t address) {
    char line[MAX_PATH + 128];
    for (int i = 0; i < file_count; i++) {
        if (files[i].begin <= address && address < files[i].end) return &files[i];
    }
    FILE *maps = fopen("/proc/self/maps", "r");
    const mapped_file *result = NULL;
    while (maps != NULL && file_count < MAX_FILES && result == NULL && fgets(line, sizeof line, maps) != NULL) {
        mapped_file *f = &files[file_count];
        int path = 0;
        int found = sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNxPTR " %*s %*s %n", &f->begin, &f->end,
                           &f->offset, &path);
        line[strcspn(line, "\n")] = 0;
        if (found < 3 || line[path] != '/' || address < f->begin || address >= f->end) continue;
        snprintf(f->path, sizeof f->path, "%s", line + path);
        file_count++;
        result = f;
    }
    if (maps != NULL) fclose(maps);
    return result;
}

static void on_translation(plugin_id id, struct block *block) {
    (void)id;
    uintptr_t address = (uintptr_t)qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(block, 0));
    const mapped_file *file = find_file(address);
    counter *c = calloc(1, sizeof *c);
    if (c == NULL) abort();
    *c = (counter){counters, 0, file == NULL ? 0 : address - file->begin + file->offset, file == NULL ? "-" : file->path};
    counters = c;
    qemu_plugin_register_vcpu_tb_exec_inline(block, INLINE_ADD_U64, &c->instructions, qemu_plugin_tb_n_insns(block));
}

static void on_end(plugin_id id, void *data) {
    (void)id, (void)data;
    for (const counter *c = counters; c != NULL; c = c->next) {
        if (c->instructions) fprintf(output, "%" PRIu64 " %" PRIuPTR " %s\n", c->instructions, c->offset, c->path);
    }
    fclose(output);
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int count, char **arguments) {
    (void)info;
    if (count != 1 || strncmp(arguments[0], "out=", 4) != 0 || (output = fopen(arguments[0] + 4, "w")) == NULL) {
        fprintf(stderr, "instructions: wants out=FILE\n");
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_end, NULL);
    return 0;
}

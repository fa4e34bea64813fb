/* mem.c: the memory functions that the compiler may call on its own (copies of structures, large initialisers).
 *
 * Every image links this unit, so such a call binds inside the image. Built with -ffreestanding, which keeps the
 * compiler from recognising these loops as calls to themselves.
 */
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *restrict target, const void *restrict source, size_t size);
void *memmove(void *target, const void *source, size_t size);
void *memset(void *target, int value, size_t size);

void *memcpy(void *restrict target, const void *restrict source, size_t size) {
    uint8_t *restrict to = target;
    const uint8_t *restrict from = source;
    for (size_t i = 0; i < size; i++) to[i] = from[i];
    return target;
}

void *memmove(void *target, const void *source, size_t size) {
    uint8_t *to = target;
    const uint8_t *from = source;
    if ((uintptr_t)to <= (uintptr_t)from) {
        for (size_t i = 0; i < size; i++) to[i] = from[i];
    } else {
        for (size_t i = size; i-- > 0;) to[i] = from[i];
    }
    return target;
}

void *memset(void *target, int value, size_t size) {
    uint8_t *to = target;
    for (size_t i = 0; i < size; i++) to[i] = (uint8_t)value;
    return target;
}

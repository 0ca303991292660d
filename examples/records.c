/*
 * A reader for a stream of length-prefixed records, as a small device might send them:
 *
 *     | type: 1 byte | length: 2 bytes, big endian | payload: length bytes |
 *
 * read_record() trusts the length; read_record_checked() is the same function with the missing checks. Both are here so
 * that the two explanations can be compared.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE 32
#define HEADER_SIZE 3

enum record_type {
    RECORD_NAME = 1,
    RECORD_BLOB = 2,
    RECORD_END = 3,
};

struct record {
    enum record_type type;
    char name[NAME_SIZE];
    uint8_t *blob;
    size_t blob_size;
};

struct stream {
    const uint8_t *data;
    size_t size;
    size_t position;
};

static uint16_t get_u16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

/* The length comes from the sender and is checked against neither the stream nor the destination. */
int read_record(struct stream *stream, struct record *record)
{
    const uint8_t *header = stream->data + stream->position;
    uint16_t length;

    memset(record, 0, sizeof(*record));
    record->type = header[0];
    length = get_u16(header + 1);
    stream->position += HEADER_SIZE;

    switch (record->type) {
    case RECORD_NAME:
        memcpy(record->name, stream->data + stream->position, length);
        record->name[length] = '\0';
        break;
    case RECORD_BLOB:
        record->blob = malloc(length);
        memcpy(record->blob, stream->data + stream->position, length);
        record->blob_size = length;
        break;
    case RECORD_END:
        return 0;
    default:
        return -1;
    }

    stream->position += length;
    return 1;
}

int read_record_checked(struct stream *stream, struct record *record)
{
    const uint8_t *header;
    uint16_t length;

    if (stream->size - stream->position < HEADER_SIZE)
        return -1;
    header = stream->data + stream->position;

    memset(record, 0, sizeof(*record));
    record->type = header[0];
    length = get_u16(header + 1);
    stream->position += HEADER_SIZE;
    if (stream->size - stream->position < length)
        return -1;

    switch (record->type) {
    case RECORD_NAME:
        if (length >= NAME_SIZE)
            return -1;
        memcpy(record->name, stream->data + stream->position, length);
        record->name[length] = '\0';
        break;
    case RECORD_BLOB:
        record->blob = malloc(length);
        if (record->blob == NULL)
            return -1;
        memcpy(record->blob, stream->data + stream->position, length);
        record->blob_size = length;
        break;
    case RECORD_END:
        return 0;
    default:
        return -1;
    }

    stream->position += length;
    return 1;
}

void free_record(struct record *record)
{
    free(record->blob);
    record->blob = NULL;
    record->blob_size = 0;
}

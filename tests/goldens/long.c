struct packet *packet_parse(struct arena *arena, const uint8_t *data, size_t size, unsigned flags)
{
    struct packet *packet;
    const uint8_t *cursor = data;
    const uint8_t *end = data + size;
    uint16_t options, kind, length;
    uint32_t checksum = 0;
    size_t i;

    if (data == NULL || size < PACKET_MIN_SIZE) {
        log_warn("packet too short: %zu bytes", size);
        return NULL;
    }

    packet = arena_alloc(arena, sizeof(*packet));
    if (packet == NULL)
        return NULL;
    memset(packet, 0, sizeof(*packet));

    packet->version = *cursor++;
    packet->flags = *cursor++;
    options = (uint16_t)(cursor[0] << 8 | cursor[1]);
    cursor += 2;

    if (packet->version != 1 && packet->version != 2) {
        log_warn("unknown version %u", packet->version);
        return NULL;
    }

    packet->options = arena_alloc(arena, options * sizeof(packet->options[0]));
    if (packet->options == NULL)
        return NULL;

    /* every option is a kind, a length and that many bytes */
    for (i = 0; i < options; i++) {
        struct option *option = &packet->options[i];

        kind = (uint16_t)(cursor[0] << 8 | cursor[1]);
        length = (uint16_t)(cursor[2] << 8 | cursor[3]);
        cursor += 4;
        option->kind = kind;
        option->length = length;

        switch (kind) {
        case OPTION_NAME:
            memcpy(packet->name, cursor, length);
            packet->name[length] = '\0';
            break;
        case OPTION_ROUTE:
            option->value = arena_alloc(arena, length);
            if (option->value == NULL)
                return NULL;
            memcpy(option->value, cursor, length);
            break;
        case OPTION_PADDING:
            break;
        default:
            if (flags & PACKET_STRICT)
                return NULL;
            break;
        }
        cursor += length;
    }

    while (cursor < end)
        checksum = checksum * 31 + *cursor++;
    packet->checksum = checksum;
    return packet;
}

int find_slot(const struct table *table, uint32_t key)
{
    uint32_t slot = key % table->size;

    for (uint32_t tried = 0; tried < table->size; tried++) {
        if (table->used[slot] == 0 || table->keys[slot] == key)
            return (int)slot;
        slot = (slot + 1) % table->size;
    }
    return -1; /* full */
}

static size_t count_spaces(const char *text, size_t length)
{
    size_t found = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == ' ')
            found++;
    }
    return found;
}

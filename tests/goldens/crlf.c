int parse_record(const unsigned char *buf, int len, struct record *rec)
{
    int n = buf[0];        // the first byte is the length
    /* copied as it
       stands */
    memcpy(rec->data, buf + 1, n);
    rec->len = n;

    if (len > 64 && \
        rec->len == 0)
        return -1;
    return n;
}

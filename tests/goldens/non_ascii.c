/* Grüße: der Schlüssel wird gekürzt – 鍵を切り詰める */
static int greet(char *out, size_t size, const char *who)
{
    const char *hello = "Grüß Gott, “%s” 🙂 // kein Kommentar"; // größer als nötig
    int n = snprintf(out, size, hello, who);   /* naïve: n may be ≥ size */
    if (n < 0)
        return -1;
    out[n] = '\0'; /* über das Ende hinaus */
    return n; /* 終わり */
}

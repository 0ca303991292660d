/* Formatting a log line: a message from outside ends up as a format string, and the line's length is only half checked. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LINE_SIZE 128

enum level { LEVEL_DEBUG, LEVEL_INFO, LEVEL_ERROR };

static const char *level_name(enum level level)
{
    switch (level) {
    case LEVEL_DEBUG:
        return "debug";
    case LEVEL_INFO:
        return "info";
    case LEVEL_ERROR:
        return "error";
    }
    return "unknown";
}

/* `client` and `message` are what a client of the server sent. */
void log_message(FILE *out, enum level level, const char *client, const char *message)
{
    char line[LINE_SIZE];
    time_t now = time(NULL);
    size_t used;

    used = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%SZ ", gmtime(&now));
    used += (size_t)snprintf(line + used, sizeof(line) - used, "%-5s [%s] ", level_name(level), client);
    if (used < sizeof(line)) {
        strcat(line + used, message);
    }

    fprintf(out, line);
    fputc('\n', out);
    if (level == LEVEL_ERROR)
        fflush(out);
}

void log_message_checked(FILE *out, enum level level, const char *client, const char *message)
{
    char stamp[32];
    time_t now = time(NULL);

    if (strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now)) == 0)
        stamp[0] = '\0';

    fprintf(out, "%s %-5s [%.64s] %.256s\n", stamp, level_name(level), client, message);
    if (level == LEVEL_ERROR)
        fflush(out);
}

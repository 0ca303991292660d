static int run_command(struct session *session, const char *line, struct reply *reply)
{
    char path[PATH_LENGTH];
    long number;
    int result;

    if (strncmp(line, "open ", 5) == 0) {
        if (sscanf(line + 5, "%s %ld", path, &number) < 1) {
            reply->code = 500;
            return -EINVAL;
        }
        result = session_open(session, path, number);
        if (result < 0) {
            snprintf(reply->text, sizeof(reply->text), "open %s: %s", path, strerror(-result));
            reply->code = 550;
            return result;
        }
        reply->code = 200;
    } else if (strncmp(line, "close ", 6) == 0) {
        if (sscanf(line + 6, "%127s %ld", path, &number) < 2) {
            reply->code = 501;
            return -EINVAL;
        }
        result = session_close(session, path, number);
        if (result < 0) {
            snprintf(reply->text, sizeof(reply->text), "close %s: %s", path, strerror(-result));
            reply->code = 551;
            return result;
        }
        reply->code = 201;
    } else if (strncmp(line, "read ", 5) == 0) {
        if (sscanf(line + 5, "%127s %ld", path, &number) < 1) {
            reply->code = 502;
            return -EINVAL;
        }
        result = session_read(session, path, number);
        if (result < 0) {
            snprintf(reply->text, sizeof(reply->text), "read %s: %s", path, strerror(-result));
            reply->code = 552;
            return result;
        }
        reply->code = 202;
    } else if (strncmp(line, "write ", 6) == 0) {
        if (sscanf(line + 6, "%s %ld", path, &number) < 2) {
            reply->code = 503;
            return -EINVAL;
        }
        result = session_write(session, path, number);
        if (result < 0) {
            snprintf(reply->text, sizeof(reply->text), "write %s: %s", path, strerror(-result));
            reply->code = 553;
            return result;
        }
        reply->code = 203;
    } else if (strncmp(line, "seek ", 5) == 0) {
        if (sscanf(line + 5, "%127s %ld", path, &number) < 1) {
            reply->code = 504;
            return -EINVAL;
        }
        result = session_seek(session, path, number);
        if (result < 0) {
            snprintf(reply->text, sizeof(reply->text), "seek %s: %s", path, strerror(-result));
            reply->code = 554;
            return result;
        }
        reply->code = 204;
    } else if (strncmp(line, "truncate ", 9) == 0) {
        if (sscanf(line + 9, "%127s %ld", path, &number) < 2) {
            reply->code = 505;
            return -EINVAL;
        }
        result = session_truncate(session, path, number);
        if (result < 0) {
            snprintf(reply->text, sizeof(reply->text), "truncate %s: %s", path, strerror(-result));
            reply->code = 555;
            return result;
        }
        reply->code = 205;
    } else if (strncmp(line, "rename ", 7) == 0) {
        if (sscanf(line + 7, "%s %ld", path, &number) < 1) {
            reply->code = 506;
            return -EINVAL;
        }
        result = session_rename(session, path, number);
        if (result < 0) {
            snprintf(reply->text, sizeof(reply->text), "rename %s: %s", path, strerror(-result));
            reply->code = 556;
            return result;
        }
        reply->code = 206;
    } else if (strncmp(line, "remove ", 7) == 0) {
        if (sscanf(line + 7, "%127s %ld", path, &number) < 2) {
            reply->code = 507;
            return -EINVAL;
        }
        result = session_remove(session, path, number);
        if (result < 0) {
            snprintf(reply->text, sizeof(reply->text), "remove %s: %s", path, strerror(-result));
            reply->code = 557;
            return result;
        }
        reply->code = 207;
    } else if (strncmp(line, "list ", 5) == 0) {
        if (sscanf(line + 5, "%127s %ld", path, &number) < 1) {
            reply->code = 508;
            return -EINVAL;
        }
        result = session_list(session, path, number);
        if (result < 0) {
            snprintf(reply->text, sizeof(reply->text), "list %s: %s", path, strerror(-result));
            reply->code = 558;
            return result;
        }
        reply->code = 208;
    } else if (strncmp(line, "stat ", 5) == 0) {
        if (sscanf(line + 5, "%s %ld", path, &number) < 2) {
            reply->code = 509;
            return -EINVAL;
        }
        result = session_stat(session, path, number);
        if (result < 0) {
            snprintf(reply->text, sizeof(reply->text), "stat %s: %s", path, strerror(-result));
            reply->code = 559;
            return result;
        }
        reply->code = 209;
    } else if (strncmp(line, "lock ", 5) == 0) {
        if (sscanf(line + 5, "%127s %ld", path, &number) < 1) {
            reply->code = 510;
            return -EINVAL;
        }
        result = session_lock(session, path, number);
        if (result < 0) {
            snprintf(reply->text, sizeof(reply->text), "lock %s: %s", path, strerror(-result));
            reply->code = 560;
            return result;
        }
        reply->code = 210;
    } else if (strncmp(line, "unlock ", 7) == 0) {
        if (sscanf(line + 7, "%127s %ld", path, &number) < 2) {
            reply->code = 511;
            return -EINVAL;
        }
        result = session_unlock(session, path, number);
        if (result < 0) {
            snprintf(reply->text, sizeof(reply->text), "unlock %s: %s", path, strerror(-result));
            reply->code = 561;
            return result;
        }
        reply->code = 211;
    } else {
        reply->code = 502;
        return -ENOSYS;
    }
    session->commands++;
    return 0;
}

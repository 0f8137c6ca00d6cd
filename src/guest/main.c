/* SPDX-License-Identifier: BSD-3-Clause */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sv.h"
#include "guest/clear.h"
#include "guest/door.h"
#include "guest/guard.h"
#include "guest/pack.h"
#include "guest/protocol.h"
#include "guest/put.h"
#include "guest/serve.h"

#define EXIT_FAILED 1
#define EXIT_USAGE 2

static int usage(void) {
    fputs("usage: snaffle-guest serve --listen-fd N [--ready-fd N] [--model-socket PATH]\n"
          "                           [--processes N] [--watch-memory-mb N] [--watch-processes N]\n"
          "                           [--watch-disk-mb N] [--home-has-bound]\n"
          "       snaffle-guest run --dir FOLDER [--stdin] [--stop] [--wait-ms N] [--output N]\n"
          "                         [--forget N,N] [--linger-ms N]\n"
          "       snaffle-guest put --from FILE --to PATH --mode OCTAL [--user N]\n"
          "       snaffle-guest pack --from FOLDER --to FILE [--max BYTES]\n"
          "       snaffle-guest clear [--user N]\n"
          "       snaffle-guest guard PROGRAM NAME [ARGUMENT]...\n"
          "       snaffle-guest --version\n",
          stderr);
    return EXIT_USAGE;
}

static int fail(const struct err *err) {
    fprintf(stderr, "snaffle-guest: %s\n", err->msg);
    return EXIT_FAILED;
}

/* The kind of an error as the exit status: the position of its row in ERR_MAP, behind what shells
 * and usage take. */
static int fail_code(const struct err *err) {
    (void)fail(err);
    return PROTOCOL_EXIT_ERR - err->code;
}

static bool take_number(const char *name, unsigned long long max, unsigned long long *out) {
    if (sv_parse_u64(sv_from(optarg), max, out)) {
        return true;
    }
    fprintf(stderr, "snaffle-guest: --%s wants a number up to %llu, not '%s'\n", name, max, optarg);
    return false;
}

enum serve_option {
    LISTEN_FD,
    READY_FD,
    MODEL_SOCKET,
    MODEL_PORT,
    PROCESSES,
    SILENCE_MS,
    WATCH_MEMORY,
    WATCH_PROCESSES,
    WATCH_DISK,
    HOME_HAS_BOUND,
};

static bool take_serve_option(int option, const char *name, struct serve_options *o) {
    static const unsigned long long max[] = {
        [LISTEN_FD] = 65535,         [READY_FD] = 65535,           [MODEL_SOCKET] = 0,
        [MODEL_PORT] = 65535,        [PROCESSES] = 1u << 22,       [SILENCE_MS] = 1u << 30,
        [WATCH_MEMORY] = 1ull << 40, [WATCH_PROCESSES] = 1u << 22, [WATCH_DISK] = 1ull << 40,
        [HOME_HAS_BOUND] = 0,
    };
    unsigned long long n = 0;
    bool has_number = option != MODEL_SOCKET && option != HOME_HAS_BOUND;
    if (has_number && !take_number(name, max[option], &n)) {
        return false;
    }
    switch ((enum serve_option)option) {
    case LISTEN_FD:
        o->listen_fd = (int)n;
        break;
    case READY_FD:
        o->ready_fd = (int)n;
        break;
    case MODEL_SOCKET:
        o->model_socket = optarg;
        break;
    case MODEL_PORT:
        o->model_port = (uint16_t)n;
        break;
    case PROCESSES:
        o->processes = (unsigned long)n;
        break;
    case SILENCE_MS:
        o->silence_ms = (int64_t)n;
        break;
    case WATCH_MEMORY:
        o->limits.memory_mb = n;
        break;
    case WATCH_PROCESSES:
        o->limits.processes = n;
        break;
    case WATCH_DISK:
        o->limits.disk_mb = n;
        break;
    case HOME_HAS_BOUND:
        o->limits.home_has_bound = true;
        break;
    }
    return true;
}

static int main_serve(int argc, char **argv) {
    static const struct option table[] = {
        {"listen-fd", required_argument, NULL, LISTEN_FD},
        {"ready-fd", required_argument, NULL, READY_FD},
        {"model-socket", required_argument, NULL, MODEL_SOCKET},
        {"model-port", required_argument, NULL, MODEL_PORT}, /* For tests, as is the last. */
        {"processes", required_argument, NULL, PROCESSES},
        {"silence-ms", required_argument, NULL, SILENCE_MS},
        {"watch-memory-mb", required_argument, NULL, WATCH_MEMORY},
        {"watch-processes", required_argument, NULL, WATCH_PROCESSES},
        {"watch-disk-mb", required_argument, NULL, WATCH_DISK},
        {"home-has-bound", no_argument, NULL, HOME_HAS_BOUND},
        {0},
    };
    struct serve_options o = {.listen_fd = -1, .ready_fd = -1};
    int option;
    int at = 0;
    while ((option = getopt_long(argc, argv, "", table, &at)) >= 0) {
        if (option == '?' || !take_serve_option(option, table[at].name, &o)) {
            return usage();
        }
    }
    if (optind != argc || o.listen_fd < 3) {
        return usage();
    }
    struct err err = {0};
    int r = serve(&o, &err);
    return r < 0 ? fail(&err) : r;
}

static bool take_run_option(int option, const char *name, struct door_options *o) {
    unsigned long long n = 0;
    bool has_number = option == 'w' || option == 'o' || option == 'l';
    if (option == '?' || (has_number && !take_number(name, 1u << 30, &n))) {
        return false;
    }
    o->dir = option == 'd' ? optarg : o->dir;
    o->forget = option == 'f' ? optarg : o->forget;
    o->has_spec = o->has_spec || option == 'i';
    o->is_stop = o->is_stop || option == 's';
    o->wait_ms = option == 'w' ? n : o->wait_ms;
    o->output_max = option == 'o' ? (size_t)n : o->output_max;
    o->linger_ms = option == 'l' ? (unsigned)n : o->linger_ms;
    return true;
}

static int main_run(int argc, char **argv) {
    static const struct option table[] = {{"dir", required_argument, NULL, 'd'},
                                          {"stdin", no_argument, NULL, 'i'},
                                          {"stop", no_argument, NULL, 's'},
                                          {"wait-ms", required_argument, NULL, 'w'},
                                          {"output", required_argument, NULL, 'o'},
                                          {"forget", required_argument, NULL, 'f'},
                                          {"linger-ms", required_argument, NULL, 'l'},
                                          {0}};
    struct door_options o = {0};
    int option;
    int at = 0;
    while ((option = getopt_long(argc, argv, "", table, &at)) >= 0) {
        if (!take_run_option(option, table[at].name, &o)) {
            return usage();
        }
    }
    if (optind != argc || !o.dir) {
        return usage();
    }
    struct err err = {0};
    int r = door_run(&o, &err);
    return r < 0 ? fail(&err) : r;
}

static int main_put(int argc, char **argv) {
    static const struct option table[] = {{"from", required_argument, NULL, 'f'},
                                          {"to", required_argument, NULL, 't'},
                                          {"mode", required_argument, NULL, 'm'},
                                          {"user", required_argument, NULL, 'u'},
                                          {0}};
    struct put_options o = {.mode = 0644};
    unsigned long long user = 0;
    int option;
    while ((option = getopt_long(argc, argv, "", table, NULL)) >= 0) {
        o.from = option == 'f' ? optarg : o.from;
        o.to = option == 't' ? optarg : o.to;
        if (option == 'm') {
            o.mode = (unsigned)strtoul(optarg, NULL, 8) & 07777;
        }
        if (option == '?' || (option == 'u' && !take_number("user", UINT32_MAX, &user))) {
            return usage();
        }
    }
    if (optind != argc || !o.from || !o.to) {
        return usage();
    }
    struct err err = {0};
    o.user = (uint32_t)user;
    int r = put(&o, &err);
    return r < 0 ? fail_code(&err) : 0;
}

static int main_pack(int argc, char **argv) {
    static const struct option table[] = {{"from", required_argument, NULL, 'f'},
                                          {"to", required_argument, NULL, 't'},
                                          {"max", required_argument, NULL, 'm'},
                                          {0}};
    const char *from = NULL;
    const char *to = NULL;
    unsigned long long max = UINT64_MAX;
    int option;
    while ((option = getopt_long(argc, argv, "", table, NULL)) >= 0) {
        from = option == 'f' ? optarg : from;
        to = option == 't' ? optarg : to;
        if (option == '?' || (option == 'm' && !take_number("max", UINT64_MAX, &max))) {
            return usage();
        }
    }
    if (optind != argc || !from || !to) {
        return usage();
    }
    struct err err = {0};
    return pack(from, to, max, &err) < 0 ? fail_code(&err) : 0;
}

static int main_clear(int argc, char **argv) {
    static const struct option table[] = {{"user", required_argument, NULL, 'u'}, {0}};
    unsigned long long user = 0;
    int option;
    while ((option = getopt_long(argc, argv, "", table, NULL)) >= 0) {
        if (option == '?' || !take_number("user", UINT32_MAX, &user)) {
            return usage();
        }
    }
    struct err err = {0};
    if (optind != argc) {
        return usage();
    }
    return clear_machine((uint32_t)user, &err) < 0 ? fail(&err) : 0;
}

static int main_guard(int argc, char **argv) {
    if (argc < 3) {
        return usage();
    }
    struct err err = {0};
    int r = guard(argv[1], argv + 2, &err);
    return r < 0 ? fail(&err) : r;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("snaffle-guest " SNAFFLE_VERSION);
        return 0;
    }
    if (argc >= 2 && strcmp(argv[1], "serve") == 0) {
        return main_serve(argc - 1, argv + 1);
    }
    if (argc >= 2 && strcmp(argv[1], "run") == 0) {
        return main_run(argc - 1, argv + 1);
    }
    if (argc >= 2 && strcmp(argv[1], "put") == 0) {
        return main_put(argc - 1, argv + 1);
    }
    if (argc >= 2 && strcmp(argv[1], "pack") == 0) {
        return main_pack(argc - 1, argv + 1);
    }
    if (argc >= 2 && strcmp(argv[1], "clear") == 0) {
        return main_clear(argc - 1, argv + 1);
    }
    if (argc >= 2 && strcmp(argv[1], "guard") == 0) {
        return main_guard(argc - 1, argv + 1);
    }
    return usage();
}

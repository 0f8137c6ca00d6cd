/* SPDX-License-Identifier: BSD-3-Clause */
/* The smallest agent there is: asks its model two times and waits for the whole answers. Exits with
 * 0 if both came. Static, so that it runs in any sandbox. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MODEL_PORT 7000 /* Where a sandbox has its model. */
#define ANSWER_MAX (1u << 20)

static const char first[] = "{\"model\":\"scripted\",\"stream\":true,\"messages\":["
                            "{\"role\":\"user\",\"content\":\"go\"}]}";
static const char second[] = "{\"model\":\"scripted\",\"stream\":true,\"messages\":["
                             "{\"role\":\"user\",\"content\":\"go\"},"
                             "{\"role\":\"assistant\",\"content\":\"one\"},"
                             "{\"role\":\"user\",\"content\":\"on\"}]}";

/* Whether the whole answer came. */
static int ask(const char *body) {
    static char answer[ANSWER_MAX];
    char request[1024];
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(MODEL_PORT),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *key = getenv("OPENAI_API_KEY");
    int n = snprintf(request, sizeof request,
                     "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                     "Content-Type: application/json\r\nConnection: close\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     key ? key : "", strlen(body), body);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t got = 0;
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) < 0 ||
        write(fd, request, (size_t)n) != n) {
        return 0;
    }
    for (ssize_t r;
         got < sizeof answer - 1 && (r = read(fd, answer + got, sizeof answer - 1 - got)) > 0;) {
        got += (size_t)r;
    }
    answer[got] = '\0';
    close(fd);
    return strstr(answer, "200 OK") != NULL && strstr(answer, "data: [DONE]") != NULL;
}

int main(void) {
    int answered = ask(first) + ask(second);
    printf("answered %d\n", answered);
    return answered == 2 ? 0 : 1;
}

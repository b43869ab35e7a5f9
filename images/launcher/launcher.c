/*
 * Process 1 of every sandbox container: starts one command, and says how it ended.
 *
 * It is static and execute-only (mode 0111, owned by root). The kernel makes a process that may
 * not read its own program non-dumpable (fs/exec.c, would_dump), so the command, which has the same
 * UID, can neither read its memory, descriptors and environment nor trace it; and as process 1 of
 * a PID namespace it is immune to every signal from inside (pid_namespaces(7)).
 *
 * Standard input carries frames from the client (protocol.py is the other side):
 *
 *     type, one byte; length of the payload, 4 bytes, big-endian; payload
 *
 *     P  the next piece of the script            C  configuration: starts the command
 *     I  a piece of standard input               J  the same behind a 32-byte nonce, acknowledged
 *     E  end of standard input                   K  kill: end the call now
 *     H  heartbeat                               B  begin: clocks and figures count from now
 *
 * The configuration is a sequence of (tag, one byte; length, 4 bytes; value):
 *
 *     t  mark that ends both streams             a  argument, repeated
 *     e  variable, NAME=VALUE, repeated          c  directory
 *     d  deadline in ms    h  heartbeat in ms    f  RLIMIT_FSIZE in bytes
 *     i  "1": standard input follows; else it is /dev/null
 *
 * A command that was started ahead of its call and waits on standard input is told nothing by B: its
 * payload (d, h, f) replaces the limits that it was started with.
 *
 * The command writes to the container's own stdout and stderr. When its main process has ended, or
 * the client asks for it, or the client is gone (end of file on standard input), everything in the
 * container is killed and reaped; only then the mark is written to both streams, and the report
 * behind the one on stderr. An acknowledgement is 0x1d and the frame's nonce, on stderr; the
 * command could steal one by reading the pipe, which costs it its own input and nothing else: the
 * mark that ends a call never passes a pipe while anything else is alive.
 *
 * Usage: launcher IDLE_SECONDS   (an idle launcher exits by itself after so long)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    HEADER_BYTES = 5,
    NONCE_BYTES = 32,
    MARK_MAX_BYTES = 128,
    CONFIG_MAX_BYTES = 8 << 20,
    PIECE_MAX_BYTES = 128 << 10,
    SCRIPT_MAX_BYTES = 16 << 20,
    STDIN_MAX_BYTES = 1 << 20,
    ACKS_MAX = 64,
    READ_BYTES = 64 << 10,
    REPORT_WAIT_MS = 2000,
    LINGER_MS = 3000,
};

struct buffer {
    unsigned char *data;
    size_t start, end, capacity;
};

struct ack {
    uint64_t due_at; /* position in standard input behind which it is owed */
    char nonce[NONCE_BYTES];
};

struct figures {
    long long oom_kill, pids_max, cpu_ns, throttled_ns;
};

static struct {
    char mark[MARK_MAX_BYTES];
    size_t mark_bytes;
    char **argv, **envp;
    size_t argc, envc;
    const char *cwd;
    long long deadline_ms, heartbeat_ms, file_bytes;
    int wants_stdin;
} config;

static struct buffer input;   /* frames that are not whole yet */
static struct buffer pending; /* standard input that the command has not taken yet */
static uint64_t stdin_queued, stdin_taken;
static struct ack acks[ACKS_MAX];
static unsigned acks_first, acks_count;
static int script_fd = -1, stdin_fd = -1, stdin_ended, signal_fd = -1, out_fd = 1, err_fd = 2;
static pid_t main_pid = -1;
static int main_ended, main_status;
static size_t script_bytes;
static long long idle_until_ms, started_ms, last_frame_ms;
static const char *why;
static struct figures before;

static long long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void *grown(void *old, size_t size)
{
    void *fresh = realloc(old, size);
    if (!fresh)
        _exit(125);
    return fresh;
}

static unsigned char *buffer_room(struct buffer *b, size_t bytes)
{
    if (b->start) {
        memmove(b->data, b->data + b->start, b->end - b->start);
        b->end -= b->start;
        b->start = 0;
    }
    if (b->capacity < b->end + bytes) {
        b->capacity = b->end + bytes;
        b->data = grown(b->data, b->capacity);
    }
    return b->data + b->end;
}

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* ---- the kernel's figures, cgroup v2 and v1 ---- */

/* Opened at the start and kept: the command has our UID, so prlimit(2) lets it take away our right
 * to open files, and with it the figures. */
enum { OOM, PIDS, PIDS_PEAK, MEMORY_PEAK, CPU_V2, CPU_V1, THROTTLED_V1, SOURCES };

#define CG "/sys/fs/cgroup/"

static const char *const sources[SOURCES][2] = {
    [OOM] = {CG "memory.events", CG "memory/memory.oom_control"},
    [PIDS] = {CG "pids.events", CG "pids/pids.events"},
    [PIDS_PEAK] = {CG "pids.peak", CG "pids/pids.peak"},
    [MEMORY_PEAK] = {CG "memory.peak", CG "memory/memory.max_usage_in_bytes"},
    [CPU_V2] = {CG "cpu.stat", NULL},
    [CPU_V1] = {CG "cpuacct/cpuacct.usage", CG "cpu,cpuacct/cpuacct.usage"},
    [THROTTLED_V1] = {CG "cpu/cpu.stat", CG "cpu,cpuacct/cpu.stat"},
};
static int source_fds[SOURCES];

static void open_sources(void)
{
    for (int s = 0; s < SOURCES; s++) {
        source_fds[s] = open(sources[s][0], O_RDONLY | O_CLOEXEC);
        if (source_fds[s] < 0 && sources[s][1])
            source_fds[s] = open(sources[s][1], O_RDONLY | O_CLOEXEC);
    }
}

/* The number behind `key`, or the only one in the file when `key` is null; -1 for unknown. */
static long long figure(int source, const char *key)
{
    char text[2048];
    ssize_t got = source_fds[source] < 0 ? -1 : pread(source_fds[source], text, sizeof text - 1, 0);
    if (got <= 0)
        return -1;
    text[got] = 0;
    if (!key)
        return atoll(text);
    size_t length = strlen(key);
    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, key, length) && line[length] == ' ')
            return atoll(line + length + 1);
    }
    return -1;
}

static struct figures read_figures(void)
{
    struct figures f = {
        .oom_kill = figure(OOM, "oom_kill"),
        .pids_max = figure(PIDS, "max"),
        .cpu_ns = figure(CPU_V2, "usage_usec"),
        .throttled_ns = figure(CPU_V2, "throttled_usec"),
    };
    f.cpu_ns = f.cpu_ns < 0 ? figure(CPU_V1, NULL) : f.cpu_ns * 1000;
    f.throttled_ns =
        f.throttled_ns < 0 ? figure(THROTTLED_V1, "throttled_time") : f.throttled_ns * 1000;
    return f;
}

static int is_full(const char *path)
{
    struct statvfs s;
    return !statvfs(path, &s) && ((s.f_blocks && !s.f_bavail) || (s.f_files && !s.f_favail));
}

/* ---- the command ---- */

static void say(const char *what, const char *name, int error)
{
    char text[1024];
    int n = snprintf(text, sizeof text, "sandbox: %s %.700s: %s\n", what, name, strerror(error));
    if (write(2, text, (size_t)n) < 0)
        return;
}

static void close_from(int first)
{
    if (!syscall(SYS_close_range, first, ~0U, 0))
        return;
    for (int fd = first; fd < 4096; fd++)
        close(fd);
}

static void limit(int resource, long long value)
{
    struct rlimit both = {(rlim_t)value, (rlim_t)value};
    if (value >= 0)
        setrlimit(resource, &both);
}

static void become_the_command(int read_end)
{
    explicit_bzero(config.mark, sizeof config.mark);
    setsid();
    dup2(read_end, 0);
    if (script_fd >= 0) {
        lseek(script_fd, 0, SEEK_SET);
        if (script_fd != 3)
            dup2(script_fd, 3);
        else
            fcntl(3, F_SETFD, 0);
    }
    close_from(script_fd >= 0 ? 4 : 3);
    /* When memory runs out the command goes, and the launcher stays to say so. A non-dumpable
     * process may not write its own oom_score_adj, and nothing untrusted runs yet. */
    prctl(PR_SET_DUMPABLE, 1);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY);
    if (fd >= 0) {
        if (write(fd, "1000", 4) < 0)
            say("cannot raise", "oom_score_adj", errno);
        close(fd);
    }
    limit(RLIMIT_FSIZE, config.file_bytes);
    limit(RLIMIT_CORE, 0);
    /* The kernel's own call: the C library keeps signals 32 and 33 to itself, and the engine may have
     * been started by somebody who ignored them. Zeros mean the default action, on any machine. */
    static const char by_default[64];
    for (int s = 1; s < NSIG; s++)
        syscall(SYS_rt_sigaction, s, by_default, NULL, 8);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(022);
    if (config.cwd && chdir(config.cwd)) {
        say("cannot enter directory", config.cwd, errno);
        _exit(126);
    }
    environ = config.envp;
    execvp(config.argv[0], config.argv);
    int error = errno;
    say("cannot execute", config.argv[0], error);
    _exit(error == ENOENT || error == ENOTDIR ? 127 : 126);
}

static void make_home(void)
{
    for (size_t i = 0; i < config.envc; i++)
        if (!strncmp(config.envp[i], "HOME=/tmp/", 10))
            mkdir(config.envp[i] + 5, 0700);
}

static void start(void)
{
    int ends[2] = {-1, -1};
    if (config.wants_stdin) {
        if (pipe2(ends, O_CLOEXEC))
            _exit(125);
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        stdin_fd = ends[1];
    } else {
        ends[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    if (script_fd >= 0)
        fcntl(script_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    make_home();
    before = read_figures();
    started_ms = last_frame_ms = now_ms();
    /* CLONE_FS: the directory is shared, so where the command ended is where we are (an exited
     * process has none left in /proc). */
    main_pid = (pid_t)syscall(SYS_clone, CLONE_FS | SIGCHLD, 0, 0, 0, 0);
    if (main_pid == 0)
        become_the_command(ends[0]);
    if (main_pid < 0)
        why = "start";
    close(ends[0]);
    if (script_fd >= 0)
        close(script_fd);
}

/* ---- frames ---- */

static char *text_of(const unsigned char *value, size_t length)
{
    char *text = grown(NULL, length + 1);
    memcpy(text, value, length);
    text[length] = 0;
    return text;
}

static void push(char ***list, size_t *count, char *text)
{
    if ((*count & (*count + 1)) == 0) /* 0, 1, 3, 7, …: double */
        *list = grown(*list, (2 * *count + 2) * sizeof **list);
    (*list)[(*count)++] = text;
    (*list)[*count] = NULL;
}

static int configure(unsigned char *payload, size_t length)
{
    static char *no_env[] = {NULL};
    config.file_bytes = -1;
    for (size_t at = 0; at < length;) {
        if (length - at < HEADER_BYTES)
            return -1;
        unsigned char tag = payload[at];
        size_t size = big_endian(payload + at + 1);
        unsigned char *value = payload + at + HEADER_BYTES;
        if (size > length - at - HEADER_BYTES)
            return -1;
        at += HEADER_BYTES + size;
        if (tag == 't') {
            if (size == 0 || size > MARK_MAX_BYTES)
                return -1;
            memcpy(config.mark, value, config.mark_bytes = size);
            explicit_bzero(value, size);
            continue;
        }
        char *text = text_of(value, size);
        switch (tag) {
        case 'a': push(&config.argv, &config.argc, text); continue;
        case 'e': push(&config.envp, &config.envc, text); continue;
        case 'c': config.cwd = text; continue;
        case 'd': config.deadline_ms = atoll(text); break;
        case 'h': config.heartbeat_ms = atoll(text); break;
        case 'f': config.file_bytes = atoll(text); break;
        case 'i': config.wants_stdin = text[0] == '1'; break;
        default: return -1;
        }
        free(text);
    }
    if (!config.envp)
        config.envp = no_env;
    return config.argc && config.mark_bytes ? 0 : -1;
}

/* The call of a command that has waited for it: what it did until now is not the call's. */
static int begin(unsigned char *payload, size_t length)
{
    config.file_bytes = -1;
    config.deadline_ms = config.heartbeat_ms = 0;
    for (size_t at = 0; at < length;) {
        if (length - at < HEADER_BYTES)
            return -1;
        unsigned char tag = payload[at];
        size_t size = big_endian(payload + at + 1);
        if (size > length - at - HEADER_BYTES)
            return -1;
        char *text = text_of(payload + at + HEADER_BYTES, size);
        at += HEADER_BYTES + size;
        switch (tag) {
        case 'd': config.deadline_ms = atoll(text); break;
        case 'h': config.heartbeat_ms = atoll(text); break;
        case 'f': config.file_bytes = atoll(text); break;
        default: return -1;
        }
        free(text);
    }
    if (config.file_bytes >= 0) {
        struct rlimit both = {(rlim_t)config.file_bytes, (rlim_t)config.file_bytes};
        if (prlimit(main_pid, RLIMIT_FSIZE, &both, NULL))
            return -1;
    }
    before = read_figures();
    started_ms = now_ms();
    return 0;
}

static int take_script(const unsigned char *data, size_t length)
{
    if (script_fd < 0)
        script_fd = (int)syscall(SYS_memfd_create, "script", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    script_bytes += length;
    if (script_fd < 0 || script_bytes > SCRIPT_MAX_BYTES)
        return -1;
    while (length) {
        ssize_t n = write(script_fd, data, length);
        if (n <= 0)
            return -1;
        data += n;
        length -= (size_t)n;
    }
    return 0;
}

static int take_stdin(const unsigned char *data, size_t length, const unsigned char *nonce)
{
    if (pending.end - pending.start + length > STDIN_MAX_BYTES)
        return -1;
    if (stdin_fd >= 0) {
        memcpy(buffer_room(&pending, length), data, length);
        pending.end += length;
    } else {
        stdin_taken += length;
    }
    stdin_queued += length;
    if (nonce) {
        if (acks_count == ACKS_MAX)
            return -1;
        struct ack *a = &acks[(acks_first + acks_count++) % ACKS_MAX];
        a->due_at = stdin_queued;
        memcpy(a->nonce, nonce, NONCE_BYTES);
    }
    return 0;
}

/* One frame; -1 ends the call: a client that speaks another language is no client. */
static int handle(unsigned char type, unsigned char *payload, size_t length)
{
    last_frame_ms = now_ms();
    if (type == 'H')
        return 0;
    if (main_pid < 0) {
        if (type == 'P')
            return take_script(payload, length);
        if (type != 'C' || configure(payload, length))
            return -1;
        start();
        return 0;
    }
    switch (type) {
    case 'I': return take_stdin(payload, length, NULL);
    case 'J':
        if (length < NONCE_BYTES)
            return -1;
        return take_stdin(payload + NONCE_BYTES, length - NONCE_BYTES, payload);
    case 'B': return begin(payload, length);
    case 'E': stdin_ended = 1; return 0;
    case 'K': why = "kill"; return 0;
    default: return -1;
    }
}

static void read_frames(void)
{
    unsigned char *room = buffer_room(&input, READ_BYTES);
    ssize_t got = read(0, room, READ_BYTES);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        why = "lease";
        return;
    }
    input.end += (size_t)got;
    while (!why && input.end - input.start >= HEADER_BYTES) {
        unsigned char *frame = input.data + input.start;
        size_t length = big_endian(frame + 1);
        if (length > (frame[0] == 'C' ? CONFIG_MAX_BYTES : PIECE_MAX_BYTES)) {
            why = "protocol";
            return;
        }
        if (input.end - input.start - HEADER_BYTES < length)
            return;
        input.start += HEADER_BYTES + length;
        if (handle(frame[0], frame + HEADER_BYTES, length) && !why)
            why = "protocol";
    }
}

static void feed_stdin(void)
{
    while (stdin_fd >= 0 && pending.end > pending.start) {
        ssize_t n = write(stdin_fd, pending.data + pending.start, pending.end - pending.start);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* nobody reads any more: the rest is nobody's */
            close(stdin_fd);
            stdin_fd = -1;
            n = (ssize_t)(pending.end - pending.start);
        }
        pending.start += (size_t)n;
        stdin_taken += (uint64_t)n;
    }
    if (stdin_ended && stdin_fd >= 0) {
        close(stdin_fd);
        stdin_fd = -1;
    }
}

static int ack_is_due(void)
{
    return acks_count && acks[acks_first].due_at <= stdin_taken;
}

static void send_acks(void)
{
    while (ack_is_due()) {
        char text[1 + NONCE_BYTES];
        text[0] = 0x1d;
        memcpy(text + 1, acks[acks_first].nonce, NONCE_BYTES);
        /* At most PIPE_BUF: whole, or not at all. */
        if (write(err_fd, text, sizeof text) < 0 && errno == EAGAIN)
            return;
        acks_first = (acks_first + 1) % ACKS_MAX;
        acks_count--;
    }
}

/* Not poll(2): it fails for more descriptors than RLIMIT_NOFILE, which the command may take away
 * from us (prlimit(2) asks for the same UID only). */
static int watch_fd, watches_stdin, watches_err;

static void watch(int fd, int operation, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.fd = fd};
    if (epoll_ctl(watch_fd, operation, fd, &e) && fd == 0)
        _exit(125);
}

/* ---- the end ---- */

static void reap(void)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == main_pid) {
            main_ended = 1;
            main_status = status;
        }
}

/* kill(-1) holds the task list against fork, and a fork under a pending SIGKILL fails
 * (kernel/fork.c), so one round ends a fork bomb too. */
static void kill_everything(void)
{
    for (;;) {
        int status;
        kill(-1, SIGKILL);
        pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno != EINTR)
            return;
        if (pid == main_pid) {
            main_ended = 1;
            main_status = status;
        }
        reap();
    }
}

static void put(int fd, const char *data, size_t length)
{
    long long until = now_ms() + REPORT_WAIT_MS;
    while (length && now_ms() < until) {
        ssize_t n = write(fd, data, length > 4096 ? 4096 : length);
        if (n < 0 && errno == EAGAIN)
            nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return;
        if (n > 0) {
            data += n;
            length -= (size_t)n;
        }
    }
}

static long long grown_by(long long after, long long earlier)
{
    return after < 0 || earlier < 0 ? -1 : after - earlier;
}

static void report(int ended_by_itself)
{
    char text[8192], cwd[4096];
    struct figures after = read_figures();
    if (!getcwd(cwd, sizeof cwd) || cwd[0] != '/')
        cwd[0] = 0;
    int n = snprintf(
        text, sizeof text,
        "why %s\nexit %d\nsignal %d\noom_kill %lld\npids_max %lld\npids_peak %lld\n"
        "memory_peak %lld\ncpu_ns %lld\nthrottled_ns %lld\ntmp_full %d\nrun_ms %lld\ncwd %s\n",
        ended_by_itself ? "exit" : why,
        main_ended && WIFEXITED(main_status) ? WEXITSTATUS(main_status) : -1,
        main_ended && WIFSIGNALED(main_status) ? WTERMSIG(main_status) : 0,
        grown_by(after.oom_kill, before.oom_kill), grown_by(after.pids_max, before.pids_max),
        figure(PIDS_PEAK, NULL),
        figure(MEMORY_PEAK, NULL),
        grown_by(after.cpu_ns, before.cpu_ns), grown_by(after.throttled_ns, before.throttled_ns),
        is_full("/tmp") || is_full("/dev/shm"), now_ms() - started_ms, cwd);
    char size[16];
    int size_bytes = snprintf(size, sizeof size, "%08x", n);
    put(out_fd, config.mark, config.mark_bytes);
    put(err_fd, config.mark, config.mark_bytes);
    put(err_fd, size, (size_t)size_bytes);
    put(err_fd, text, (size_t)n);
}

/* Our end makes the engine take the container apart, which costs it a hundred times what the call
 * did; the client says when, by closing the stream. */
static void linger(void)
{
    char data[4096];
    long long until = now_ms() + LINGER_MS;
    for (long long left; (left = until - now_ms()) > 0;) {
        struct epoll_event e;
        if (epoll_wait(watch_fd, &e, 1, (int)left) <= 0)
            continue;
        if (e.data.fd != 0)
            watch(e.data.fd, EPOLL_CTL_DEL, 0);
        else if (read(0, data, sizeof data) <= 0)
            return;
    }
}

static int finish(void)
{
    if (main_pid < 0)
        return !why || !strcmp(why, "lease") ? 0 : 125;
    int ended_by_itself = main_ended;
    kill_everything();
    report(ended_by_itself);
    if (!why || !strcmp(why, "kill"))
        linger();
    if (!main_ended)
        return 125;
    return WIFEXITED(main_status) ? WEXITSTATUS(main_status) : 128 + WTERMSIG(main_status);
}

/* ---- the loop ---- */

static int wait_ms(void)
{
    long long now = now_ms(), until = idle_until_ms;
    if (main_pid > 0) {
        until = now + 3600 * 1000;
        if (config.deadline_ms > 0 && started_ms + config.deadline_ms < until)
            until = started_ms + config.deadline_ms;
        if (config.heartbeat_ms > 0 && last_frame_ms + config.heartbeat_ms < until)
            until = last_frame_ms + config.heartbeat_ms;
    }
    return until <= now ? 0 : (int)(until - now);
}

static void check_clocks(void)
{
    long long now = now_ms();
    if (main_pid < 0 && now >= idle_until_ms)
        why = "idle";
    if (main_pid > 0 && config.deadline_ms > 0 && now >= started_ms + config.deadline_ms)
        why = "deadline";
    if (main_pid > 0 && config.heartbeat_ms > 0 && now >= last_frame_ms + config.heartbeat_ms)
        why = "heartbeat";
}

static void update_watches(void)
{
    int stdin_waits = stdin_fd >= 0 && pending.end > pending.start;
    if (stdin_waits != watches_stdin && stdin_fd >= 0)
        watch(stdin_fd, stdin_waits ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, EPOLLOUT);
    watches_stdin = stdin_waits; /* closing took it out */
    if (ack_is_due() != watches_err)
        watch(err_fd, watches_err ? EPOLL_CTL_DEL : EPOLL_CTL_ADD, EPOLLOUT);
    watches_err = ack_is_due();
}

static void serve(void)
{
    while (!why && !main_ended) {
        struct epoll_event ready[4];
        update_watches();
        int count = epoll_wait(watch_fd, ready, 4, wait_ms());
        if (count < 0 && errno != EINTR)
            why = "wait";
        check_clocks();
        for (int i = 0; i < count; i++) {
            if (ready[i].data.fd == signal_fd) {
                struct signalfd_siginfo info[8];
                while (read(signal_fd, info, sizeof info) > 0)
                    ;
                reap();
            } else if (ready[i].data.fd == 0 && !why) {
                read_frames();
            }
        }
        if (count > 0) {
            feed_stdin();
            send_acks();
        }
    }
}

/* An own open file description: the command shares the inherited one and may set O_NONBLOCK, or
 * clear it, at any moment. */
static int reopened(const char *path, int fallback)
{
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? fallback : fd;
}

int main(int argc, char **argv)
{
    if (getpid() != 1 || argc != 2) {
        fputs("This program is process 1 of a sandbox container, and nothing else.\n", stderr);
        return 125;
    }
    prctl(PR_SET_DUMPABLE, 0);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (int s = 1; s < NSIG; s++)
        if (s != SIGCHLD)
            signal(s, SIG_IGN);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signal_fd < 0)
        return 125;
    out_fd = reopened("/proc/self/fd/1", 1);
    err_fd = reopened("/proc/self/fd/2", 2);
    fcntl(0, F_SETFD, FD_CLOEXEC);
    open_sources();
    watch_fd = epoll_create1(EPOLL_CLOEXEC);
    watch(0, EPOLL_CTL_ADD, EPOLLIN);
    watch(signal_fd, EPOLL_CTL_ADD, EPOLLIN);
    idle_until_ms = now_ms() + atoll(argv[1]) * 1000;
    serve();
    return finish();
}

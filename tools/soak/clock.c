/* The wall clock of one process, moved by the nanoseconds in the file that SOAK_CLOCK names (eight bytes, of
   this machine); behind them the same of whether the kernel vouches for it: 0 as it is, 1 yes. Loaded before the C library (LD_PRELOAD); the monotonic clock stays as it is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/timex.h>
#include <time.h>

#define SECOND 1000000000LL

static int (*ask)(clockid_t, struct timespec *);
static const volatile long long *step_ns;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("SOAK_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *mapped = mmap(NULL, 2 * sizeof *step_ns, PROT_READ, MAP_SHARED, file, 0);
        step_ns = mapped == MAP_FAILED ? NULL : mapped;
    }
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (!ask)
        ask = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = ask(clock, at);
    if (code == 0 && clock == CLOCK_REALTIME && step_ns) {
        long long ns = at->tv_sec * SECOND + at->tv_nsec + *step_ns;
        at->tv_sec = ns / SECOND;
        at->tv_nsec = ns % SECOND;
    }
    return code;
}

int adjtimex(struct timex *of) {
    int (*real)(struct timex *) = (int (*)(struct timex *))dlsym(RTLD_NEXT, "adjtimex");
    int state = real(of);
    if (!step_ns || !step_ns[1])
        return state;
    of->maxerror = 1000;
    return TIME_OK;
}

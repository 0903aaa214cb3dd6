/* Replaces three functions of the C library in the runtime of bundles, which is linked statically. Each is called by
   start-up code or by the standard library of Rust. By what it calls in turn, it is the only reason for a large part
   of that library to be in the file: printf with wide characters, translated messages, scanf, and the resolver of
   host names.

   The definitions are weak. They count where the linker finds them first, which keeps the parts of the archive out,
   and give way if another version of the library has the same names for another reason. `scripts/runtime.sh` compiles
   this file and checks the length of the result. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Describes the stack of a thread: Rust asks for it to recognise an overflow. That is an end by SIGSEGV here, without a
   message. The original reads /proc/self/maps with scanf. */
__attribute__((weak)) int pthread_getattr_np(unsigned long thread, void *attributes) {
  (void)thread;
  (void)attributes;
  return ENOSYS;
}

/* Reports a bug of a C library and aborts. The original translates the message. */
__attribute__((weak, noreturn)) void __assert_fail(const char *assertion, const char *file, unsigned line,
                                                   const char *function) {
  (void)file;
  (void)line;
  const char *parts[] = {"assertion failed in ", function ? function : "?", ": ", assertion, "\n"};
  for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (write(STDERR_FILENO, parts[i], strlen(parts[i])) < 0) break;
  }
  abort();
}

/* The state of the resolver, which each new thread points to its own. Nothing here looks up a host. */
__attribute__((weak)) __thread void *__libc_resp;

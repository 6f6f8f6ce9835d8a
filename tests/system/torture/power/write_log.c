/* Logs every write of a process to the files of one folder, so that a test can rebuild the disk as a power cut would leave it.
 *
 * Preloaded (LD_PRELOAD). SIDECAR_WRITE_ROOT is the folder, SIDECAR_WRITE_LOG the file of the log. One record for each change:
 * a header of five numbers (kind, CLOCK_MONOTONIC in ns, inode, offset, length) and `length` bytes. One lock covers the call and its
 * record, so the log has the order in which the kernel was called. fsync is logged and not carried out: the log decides what is
 * durable, and the process that is killed loses nothing that the kernel has.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OPENED = 1, WROTE = 2, SYNCED = 3, TRUNCATED = 4, RENAMED = 5, REMOVED = 6, LINKED = 7 };
#define FILES 65536

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t inode_of[FILES]; /* 0: not below the folder */
static int log_file = -1;
static char root[4096];
static size_t root_length;

#define REAL(result, name, ...) static result (*real_##name)(__VA_ARGS__)
REAL(int, open, const char *, int, ...);
REAL(int, open64, const char *, int, ...);
REAL(int, openat, int, const char *, int, ...);
REAL(int, openat64, int, const char *, int, ...);
REAL(int, close, int);
REAL(ssize_t, write, int, const void *, size_t);
REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
REAL(int, ftruncate, int, off_t);
REAL(int, ftruncate64, int, off64_t);
REAL(int, fsync, int);
REAL(int, fdatasync, int);
REAL(int, rename, const char *, const char *);
REAL(int, link, const char *, const char *);
REAL(int, unlink, const char *);

__attribute__((constructor)) static void begin(void) {
#define FIND(name) real_##name = dlsym(RTLD_NEXT, #name)
  FIND(open); FIND(open64); FIND(openat); FIND(openat64); FIND(close); FIND(write); FIND(pwrite); FIND(pwrite64);
  FIND(ftruncate); FIND(ftruncate64); FIND(fsync); FIND(fdatasync); FIND(rename); FIND(link); FIND(unlink);
  const char *folder = getenv("SIDECAR_WRITE_ROOT"), *log = getenv("SIDECAR_WRITE_LOG");
  if (folder == NULL || log == NULL || realpath(folder, root) == NULL) return;
  root_length = strlen(root);
  log_file = real_open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* With the lock held. */
static void note(uint64_t kind, uint64_t inode, uint64_t offset, const void *data, uint64_t length) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  uint64_t head[5] = {kind, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, inode, offset, length};
  struct iovec parts[2] = {{head, sizeof head}, {(void *)data, length}};
  if (writev(log_file, parts, 2) != (ssize_t)(sizeof head + length)) abort();
}

static int below_root(const char *path, char *whole) {
  char folder[4096], *slash;
  if (log_file < 0 || strlen(path) >= sizeof folder) return 0;
  strcpy(folder, path);
  slash = strrchr(folder, '/');
  if (slash == NULL || slash == folder) return 0;
  *slash = 0;
  if (realpath(folder, whole) == NULL) return 0;
  if (strlen(whole) + strlen(slash + 1) + 2 > 4096) return 0;
  strcat(whole, "/");
  strcat(whole, slash + 1);
  return strncmp(whole, root, root_length) == 0 && whole[root_length] == '/';
}

static int opened(int file, const char *path, int flags) {
  char whole[8192];
  struct stat about;
  if (file >= 0 && file < FILES) {
    pthread_mutex_lock(&lock);
    inode_of[file] = 0;
    if ((flags & O_ACCMODE) != O_RDONLY && below_root(path, whole) && fstat(file, &about) == 0 && S_ISREG(about.st_mode)) {
      inode_of[file] = about.st_ino;
      note(OPENED, about.st_ino, (uint64_t)about.st_size, whole, strlen(whole));
    }
    pthread_mutex_unlock(&lock);
  }
  return file;
}

#define MODE_OF(flags) \
  mode_t mode = 0; \
  if ((flags) & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }

int open(const char *path, int flags, ...) { MODE_OF(flags) return opened(real_open(path, flags, mode), path, flags); }
int open64(const char *path, int flags, ...) { MODE_OF(flags) return opened(real_open64(path, flags, mode), path, flags); }
int openat(int at, const char *path, int flags, ...) {
  MODE_OF(flags)
  return opened(real_openat(at, path, flags, mode), path, flags);
}
int openat64(int at, const char *path, int flags, ...) {
  MODE_OF(flags)
  return opened(real_openat64(at, path, flags, mode), path, flags);
}

int close(int file) {
  if (file >= 0 && file < FILES) inode_of[file] = 0;
  return real_close(file);
}

static uint64_t known(int file) { return log_file >= 0 && file >= 0 && file < FILES ? inode_of[file] : 0; }

ssize_t write(int file, const void *data, size_t length) {
  uint64_t inode = known(file);
  if (inode == 0) return real_write(file, data, length);
  pthread_mutex_lock(&lock);
  struct stat about;
  int appends = fcntl(file, F_GETFL) & O_APPEND;
  uint64_t offset = appends && fstat(file, &about) == 0 ? (uint64_t)about.st_size : (uint64_t)lseek(file, 0, SEEK_CUR);
  ssize_t done = real_write(file, data, length);
  if (done > 0) note(WROTE, inode, offset, data, (uint64_t)done);
  pthread_mutex_unlock(&lock);
  return done;
}

static ssize_t wrote_at(int file, const void *data, size_t length, off64_t offset) {
  uint64_t inode = known(file);
  if (inode == 0) return real_pwrite64(file, data, length, offset);
  pthread_mutex_lock(&lock);
  ssize_t done = real_pwrite64(file, data, length, offset);
  if (done > 0) note(WROTE, inode, (uint64_t)offset, data, (uint64_t)done);
  pthread_mutex_unlock(&lock);
  return done;
}

ssize_t pwrite(int file, const void *data, size_t length, off_t offset) { return wrote_at(file, data, length, offset); }
ssize_t pwrite64(int file, const void *data, size_t length, off64_t offset) { return wrote_at(file, data, length, offset); }

static int truncated(int file, off64_t size) {
  uint64_t inode = known(file);
  if (inode == 0) return real_ftruncate64(file, size);
  pthread_mutex_lock(&lock);
  int done = real_ftruncate64(file, size);
  if (done == 0) note(TRUNCATED, inode, (uint64_t)size, "", 0);
  pthread_mutex_unlock(&lock);
  return done;
}

int ftruncate(int file, off_t size) { return truncated(file, size); }
int ftruncate64(int file, off64_t size) { return truncated(file, size); }

static int synced(int file, int (*real)(int)) {
  uint64_t inode = known(file);
  if (inode == 0) return real(file);
  pthread_mutex_lock(&lock);
  note(SYNCED, inode, 0, "", 0);
  pthread_mutex_unlock(&lock);
  return 0;
}

int fsync(int file) { return synced(file, real_fsync); }
int fdatasync(int file) { return synced(file, real_fdatasync); }

static int named(const char *from, const char *to, int (*real)(const char *, const char *), uint64_t kind) {
  char before[8192], after[8192], both[16384];
  int ours = below_root(from, before) && below_root(to, after);
  if (!ours) return real(from, to);
  pthread_mutex_lock(&lock);
  int done = real(from, to);
  if (done == 0) {
    size_t length = (size_t)snprintf(both, sizeof both, "%s%c%s", before, 0, after);
    note(kind, 0, 0, both, length);
  }
  pthread_mutex_unlock(&lock);
  return done;
}

int rename(const char *from, const char *to) { return named(from, to, real_rename, RENAMED); }
int link(const char *from, const char *to) { return named(from, to, real_link, LINKED); }

int unlink(const char *path) {
  char whole[8192];
  if (!below_root(path, whole)) return real_unlink(path);
  pthread_mutex_lock(&lock);
  int done = real_unlink(path);
  if (done == 0) note(REMOVED, 0, 0, whole, strlen(whole));
  pthread_mutex_unlock(&lock);
  return done;
}

/* A stand-in for libnvidia-ml.so.1, so that tests drive the real pynvml on machines without a GPU.
 *
 * It answers from the text file that FAKE_NVML names, read again whenever that file is replaced. Each line
 * is "key = value"; "#" begins a comment. Without the file the driver counts as not loaded.
 *
 *   count = 2                        GPUs in bus order; each has a section gpu0., gpu1., ...
 *   gpu0.uuid, gpu0.name             text
 *   gpu0.util                        percent
 *   gpu0.memory                      used and total, in bytes
 *   gpu0.power, gpu0.power_limit     milliwatts
 *   gpu0.temperature                 degrees Celsius
 *   gpu0.sm_clock, gpu0.memory_clock MHz
 *   gpu0.throttle                    bits, as 0x44
 *   gpu0.pcie_rx, gpu0.pcie_tx       KB/s
 *   gpu0.nvlink                      one 0 or 1 for each link
 *   gpu0.nvlink_kib                  received:sent for each link, in KiB since the driver was loaded
 *   gpu0.ecc                         corrected and uncorrected errors of its memory
 *   gpu0.remapped                    rows replaced for each, whether one waits for a reset, whether one cannot be
 *   gpu0.compute, gpu0.graphics      pid:bytes for each process; bytes of -1 for "not available"
 *   gpu0.xids                        numbers of errors, each of which a waiting event set gets once; those of
 *                                    gpu0.mig1 come as events of gpu0 with 1 as their GPU instance
 *   gpu0.mig                         number of instances; switches MIG mode on; sections gpu0.mig0., ...
 *   fail.FUNCTION = 9                this function answers with that error, on every device
 *   gpu0.fail.FUNCTION = 15          the same on one device; gpu0.fail = 15 fails whatever is asked of it
 *   hang.FUNCTION = 2.5              this function takes so many seconds
 *   log = PATH                       every call appends "FUNCTION SECTION" to that file
 *
 * FUNCTION may leave out its _v2 or _v3. What is not in the file is "not supported".
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
       INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10 };
enum { MAX_LINES = 1024, MAX_GPUS = 16, MAX_INSTANCES = 8 };

typedef struct { char section[24]; int gpu, instance; } Node;
typedef Node *Device;
typedef unsigned int uint;
typedef unsigned long long ull;

/* Each thread has read the file itself, so that none sees what another one is reading. */
static __thread struct { char key[80]; char value[512]; } lines[MAX_LINES];
static __thread int line_count;
static __thread struct stat seen;
static int references;
static Node gpus[MAX_GPUS];
static Node instances[MAX_GPUS][MAX_INSTANCES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char *trim(char *text) {
    while (*text == ' ' || *text == '\t') text++;
    char *end = text + strlen(text);
    while (end > text && strchr(" \t\r\n", end[-1])) *--end = 0;
    return text;
}

static void load(FILE *file) {
    char line[640];
    line_count = 0;
    while (line_count < MAX_LINES && fgets(line, sizeof line, file)) {
        char *sign = strchr(line, '=');
        if (*trim(line) == '#' || !sign) continue;
        *sign = 0;
        snprintf(lines[line_count].key, sizeof lines[0].key, "%s", trim(line));
        snprintf(lines[line_count].value, sizeof lines[0].value, "%s", trim(sign + 1));
        line_count++;
    }
}

static void refresh(void) {
    const char *path = getenv("FAKE_NVML");
    struct stat now;
    if (!path || stat(path, &now) != 0) {
        line_count = 0;
        memset(&seen, 0, sizeof seen);
        return;
    }
    if (now.st_ino == seen.st_ino && now.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec && now.st_size == seen.st_size)
        return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    load(file);
    fclose(file);
    seen = now;
}

static const char *find(const char *section, const char *key) {
    char wanted[128];
    snprintf(wanted, sizeof wanted, "%s%s%s", section, *section ? "." : "", key);
    for (int i = 0; i < line_count; i++)
        if (strcmp(lines[i].key, wanted) == 0) return lines[i].value;
    return NULL;
}

static const char *about(const char *section, const char *verb, const char *function) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s", verb, function);
    const char *value = find(section, key);
    char *version = strrchr(key, '_');
    if (value || !version || version[1] != 'v') return value;
    *version = 0;
    return find(section, key);
}

static void note_call(const char *function, const char *section) {
    const char *path = find("", "log");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "%s %s\n", function, section);
    fclose(file);
}

static void take(double seconds) {
    struct timespec left = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0) {}
}

/* What every call begins with: 0, or the error that the file asks for. */
static int enter(const char *function, Device device) {
    const char *section = device ? device->section : "";
    pthread_mutex_lock(&lock);
    refresh();
    note_call(function, section);
    const char *hang = about("", "hang", function);
    const char *fail = about("", "fail", function);
    if (!fail && device) fail = about(section, "fail", function);
    if (!fail && device) fail = find(section, "fail");
    double seconds = hang ? atof(hang) : 0;
    int code = fail ? atoi(fail) : references || !strncmp(function, "nvmlInit", 8) ? SUCCESS : UNINITIALIZED;
    pthread_mutex_unlock(&lock);
    if (seconds > 0) take(seconds);
    return code;
}

#define ENTER(device) do { int code = enter(__func__, device); if (code) return code; } while (0)

static int number(Device device, const char *key, ull *out) {
    const char *value = find(device->section, key);
    if (!value) return NOT_SUPPORTED;
    *out = strtoull(value, NULL, 0);
    return SUCCESS;
}

static int small_number(Device device, const char *key, uint *out) {
    ull wide = 0;
    int code = number(device, key, &wide);
    if (!code) *out = (uint)wide;
    return code;
}

static int text(Device device, const char *key, char *out, uint size) {
    const char *value = find(device->section, key);
    if (!value) return NOT_SUPPORTED;
    if (strlen(value) >= size) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

static uint gpu_count(void) {
    const char *value = find("", "count");
    uint count = value ? (uint)atoi(value) : 0;
    return count > MAX_GPUS ? MAX_GPUS : count;
}

static uint instance_count(Device device) {
    const char *value = find(device->section, "mig");
    uint count = value ? (uint)atoi(value) : 0;
    return count > MAX_INSTANCES ? MAX_INSTANCES : count;
}

static Device gpu_at(uint index) {
    Device device = &gpus[index];
    snprintf(device->section, sizeof device->section, "gpu%u", index);
    device->gpu = (int)index;
    device->instance = -1;
    return device;
}

static Device instance_at(uint gpu, uint index) {
    Device device = &instances[gpu][index];
    snprintf(device->section, sizeof device->section, "gpu%u.mig%u", gpu, index);
    device->gpu = (int)gpu;
    device->instance = (int)index;
    return device;
}

static int has_uuid(Device device, const char *uuid) {
    const char *own = find(device->section, "uuid");
    return own && strcmp(own, uuid) == 0;
}

int nvmlInitWithFlags(uint flags) {
    (void)flags;
    ENTER(NULL);
    if (line_count == 0) return DRIVER_NOT_LOADED;
    __atomic_add_fetch(&references, 1, __ATOMIC_SEQ_CST);
    return SUCCESS;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlInit(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) {
    ENTER(NULL);
    __atomic_sub_fetch(&references, 1, __ATOMIC_SEQ_CST);
    return SUCCESS;
}
const char *nvmlErrorString(int code) { (void)code; return "An error of the fake library"; }

static int system_text(const char *key, const char *otherwise, char *out, uint size) {
    const char *value = find("", key);
    snprintf(out, size, "%s", value ? value : otherwise);
    return SUCCESS;
}
int nvmlSystemGetDriverVersion(char *out, uint size) {
    ENTER(NULL);
    return system_text("driver", "580.00.00", out, size);
}
int nvmlSystemGetNVMLVersion(char *out, uint size) {
    ENTER(NULL);
    return system_text("nvml", "13.580.00.00", out, size);
}
int nvmlSystemGetCudaDriverVersion_v2(int *out) { ENTER(NULL); *out = 13000; return SUCCESS; }
int nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

int nvmlDeviceGetCount_v2(uint *out) { ENTER(NULL); *out = gpu_count(); return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(uint index, Device *out) {
    if (index >= MAX_GPUS) return INVALID_ARGUMENT;
    ENTER(gpu_at(index));
    if (index >= gpu_count()) return INVALID_ARGUMENT;
    *out = gpu_at(index);
    return SUCCESS;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, Device *out) {
    ENTER(NULL);
    for (uint gpu = 0; gpu < gpu_count(); gpu++) {
        Device device = gpu_at(gpu);
        if (has_uuid(device, uuid)) return *out = device, SUCCESS;
        for (uint i = 0; i < instance_count(device); i++)
            if (has_uuid(instance_at(gpu, i), uuid)) return *out = instance_at(gpu, i), SUCCESS;
    }
    return NOT_FOUND;
}
int nvmlDeviceGetUUID(Device device, char *out, uint size) { ENTER(device); return text(device, "uuid", out, size); }
int nvmlDeviceGetName(Device device, char *out, uint size) { ENTER(device); return text(device, "name", out, size); }
int nvmlDeviceGetIndex(Device device, uint *out) {
    ENTER(device);
    *out = (uint)(device->instance < 0 ? device->gpu : device->instance);
    return SUCCESS;
}

typedef struct { ull total, free, used; } Memory;
typedef struct { uint version; ull total, reserved, free, used; } MemoryV2;
static int memory(Device device, ull *used, ull *total) {
    const char *value = find(device->section, "memory");
    return value && sscanf(value, "%llu %llu", used, total) == 2 ? SUCCESS : NOT_SUPPORTED;
}
/* As in the driver, the first version counts what the driver keeps for itself as used. */
enum { RESERVED = 512 << 20 };
int nvmlDeviceGetMemoryInfo(Device device, Memory *out) {
    ENTER(device);
    ull used = 0, total = 0;
    int code = memory(device, &used, &total);
    if (!code) *out = (Memory){total, total - used - RESERVED, used + RESERVED};
    return code;
}
int nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2 *out) {
    ENTER(device);
    ull used = 0, total = 0;
    int code = memory(device, &used, &total);
    if (!code) *out = (MemoryV2){out->version, total, RESERVED, total - used - RESERVED, used};
    return code;
}

typedef struct { uint gpu, memory; } Utilization;
int nvmlDeviceGetUtilizationRates(Device device, Utilization *out) {
    ENTER(device);
    out->memory = 0;
    return small_number(device, "util", &out->gpu);
}
int nvmlDeviceGetPowerUsage(Device device, uint *out) { ENTER(device); return small_number(device, "power", out); }
int nvmlDeviceGetEnforcedPowerLimit(Device device, uint *out) {
    ENTER(device);
    return small_number(device, "power_limit", out);
}
int nvmlDeviceGetTemperature(Device device, int sensor, uint *out) {
    (void)sensor;
    ENTER(device);
    return small_number(device, "temperature", out);
}
typedef struct { uint version; int sensor; int temperature; } Temperature;
int nvmlDeviceGetTemperatureV(Device device, Temperature *out) {
    ENTER(device);
    return small_number(device, "temperature", (uint *)&out->temperature);
}
int nvmlDeviceGetClockInfo(Device device, int kind, uint *out) {
    ENTER(device);
    return small_number(device, kind == 2 ? "memory_clock" : "sm_clock", out);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, ull *out) {
    ENTER(device);
    return number(device, "throttle", out);
}
int nvmlDeviceGetCurrentClocksEventReasons(Device device, ull *out) {
    ENTER(device);
    return number(device, "throttle", out);
}
int nvmlDeviceGetPcieThroughput(Device device, int counter, uint *out) {
    ENTER(device);
    return small_number(device, counter == 0 ? "pcie_tx" : "pcie_rx", out);
}
int nvmlDeviceGetNvLinkState(Device device, uint link, uint *out) {
    ENTER(device);
    const char *value = find(device->section, "nvlink");
    if (!value) return NOT_SUPPORTED;
    for (; link > 0 && value; link--) {
        value = strchr(value, ' ');
        if (value) value++;
    }
    if (!value) return INVALID_ARGUMENT;
    *out = (uint)atoi(value);
    return SUCCESS;
}

typedef struct { uint field, scope; long long at, took; int type, result; ull value; } FieldValue;
int nvmlDeviceGetFieldValues(Device device, int count, FieldValue *fields) {
    enum { LINKS_SENT = 138, LINKS_RECEIVED = 139 };
    ENTER(device);
    for (FieldValue *each = fields; each < fields + count; each++) {
        const char *at = find(device->section, "nvlink_kib");
        ull both[2];
        for (uint link = each->scope; link > 0 && at; link--) at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL;
        each->result = NOT_SUPPORTED;
        if ((each->field != LINKS_SENT && each->field != LINKS_RECEIVED) || !at) continue;
        if (sscanf(at, "%llu:%llu", &both[0], &both[1]) != 2) continue;
        each->value = both[each->field == LINKS_SENT];
        each->result = SUCCESS;
    }
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(Device device, int kind, int counter, ull *out) {
    (void)counter;
    ENTER(device);
    const char *value = find(device->section, "ecc");
    ull both[2];
    if (!value || sscanf(value, "%llu %llu", &both[0], &both[1]) != 2) return NOT_SUPPORTED;
    *out = both[kind != 0];
    return SUCCESS;
}
int nvmlDeviceGetRemappedRows(Device device, uint *corrected, uint *uncorrected, uint *pending, uint *failed) {
    ENTER(device);
    const char *value = find(device->section, "remapped");
    if (!value || sscanf(value, "%u %u %u %u", corrected, uncorrected, pending, failed) != 4) return NOT_SUPPORTED;
    return SUCCESS;
}

typedef struct { uint pid; ull used; } Process;
typedef struct { uint pid; ull used; uint gpu_instance, compute_instance; } ProcessV2;
static int processes(Device device, const char *key, uint *count, void *out, size_t size) {
    const char *value = find(device->section, key);
    uint found = 0, room = *count;
    if (!value) return NOT_SUPPORTED;
    for (const char *at = value; at && *at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL) {
        uint pid;
        long long used;
        if (sscanf(at, "%u:%lld", &pid, &used) != 2) continue;
        if (out && found < room) {
            Process *entry = (Process *)((char *)out + found * size);
            entry->pid = pid;
            entry->used = (ull)used;
        }
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}
#define PROCESSES(name, key, type) \
    int name(Device device, uint *count, type *out) { \
        ENTER(device); \
        return processes(device, key, count, out, sizeof(type)); \
    }
PROCESSES(nvmlDeviceGetComputeRunningProcesses, "compute", Process)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "compute", ProcessV2)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "compute", ProcessV2)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, "graphics", Process)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics", ProcessV2)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics", ProcessV2)

int nvmlDeviceGetMigMode(Device device, uint *current, uint *pending) {
    ENTER(device);
    if (device->instance >= 0) return INVALID_ARGUMENT;
    *current = *pending = find(device->section, "mig") != NULL;
    return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(Device device, uint *out) {
    ENTER(device);
    *out = find(device->section, "mig") ? MAX_INSTANCES - 1 : 0;
    return SUCCESS;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Device device, uint index, Device *out) {
    ENTER(device);
    if (index >= instance_count(device)) return NOT_FOUND;
    *out = instance_at((uint)device->gpu, index);
    return SUCCESS;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device device, Device *out) {
    ENTER(device);
    if (device->instance < 0) return INVALID_ARGUMENT;
    *out = gpu_at((uint)device->gpu);
    return SUCCESS;
}
int nvmlDeviceIsMigDeviceHandle(Device device, uint *out) {
    ENTER(device);
    *out = device->instance >= 0;
    return SUCCESS;
}
int nvmlDeviceGetGpuInstanceId(Device device, uint *out) {
    ENTER(device);
    if (device->instance < 0) return INVALID_ARGUMENT;
    *out = (uint)device->instance;
    return SUCCESS;
}

/* An event set, and how many Xids of each GPU (first) and of each of its instances it has given. */
typedef struct { int registered[MAX_GPUS], given[MAX_GPUS][1 + MAX_INSTANCES]; } EventSet;
typedef struct { Device device; ull kind, data; uint gpu_instance, compute_instance; } Event;
enum { XID = 8, NO_INSTANCE = -1, LOOK_MS = 10 };

int nvmlEventSetCreate(EventSet **out) {
    ENTER(NULL);
    *out = calloc(1, sizeof **out);
    return SUCCESS;
}
int nvmlEventSetFree(EventSet *set) {
    ENTER(NULL);
    free(set);
    return SUCCESS;
}
int nvmlDeviceRegisterEvents(Device device, ull kinds, EventSet *set) {
    ENTER(device);
    if (device->instance >= 0 || kinds != XID) return NOT_SUPPORTED;
    set->registered[device->gpu] = 1;
    return SUCCESS;
}

/* Whether a GPU or instance has an Xid that the set has not given, which is then given. */
static int next_xid(Device device, int *given, ull *out) {
    const char *value = find(device->section, "xids");
    for (int i = 0; value && i < *given; i++) {
        value = strchr(value, ' ');
        if (value) value++;
    }
    if (!value) return 0;
    *out = strtoull(value, NULL, 10);
    ++*given;
    return 1;
}
static int next_event(EventSet *set, Event *out) {
    for (uint gpu = 0; gpu < gpu_count(); gpu++) {
        Device device = gpu_at(gpu);
        if (!set->registered[gpu]) continue;
        *out = (Event){device, XID, 0, (uint)NO_INSTANCE, (uint)NO_INSTANCE};
        if (next_xid(device, &set->given[gpu][0], &out->data)) return 1;
        for (uint i = 0; i < instance_count(device); i++) {
            out->gpu_instance = i;
            if (next_xid(instance_at(gpu, i), &set->given[gpu][1 + i], &out->data)) return 1;
        }
    }
    return 0;
}
int nvmlEventSetWait_v2(EventSet *set, Event *out, uint timeout_ms) {
    ENTER(NULL);
    for (uint waited = 0;; waited += LOOK_MS) {
        if (next_event(set, out)) return SUCCESS;
        if (waited >= timeout_ms) return TIMEOUT;
        take(LOOK_MS / 1e3);
        pthread_mutex_lock(&lock);
        refresh();
        pthread_mutex_unlock(&lock);
    }
}
int nvmlEventSetWait(EventSet *set, Event *out, uint timeout_ms) { return nvmlEventSetWait_v2(set, out, timeout_ms); }

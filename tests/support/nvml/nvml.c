/* A stand-in for NVIDIA's management library, for machines without a GPU.
 *
 * The real Python bindings load it as libnvidia-ml.so.1. It answers from the text file that HEADWAY_TEST_NVML names,
 * read anew at every call, so that a test can heat a GPU, start a process on it or lose it while others look.
 * Lines are tab-separated words `key=value`; the first says what the line is about:
 *
 *   system  driver=550.54.15  cuda=12040  fail=nvmlInit:9
 *   gpu     uuid=GPU-…  name=NVIDIA A100  memory=BYTES  used=BYTES  reserved=BYTES  utilisation=PERCENT
 *           memory_utilisation=PERCENT  temperature=CELSIUS  power=MILLIWATTS  processes=PID:BYTES,…
 *           graphics=PID:BYTES,…  fail=FUNCTION:CODE,…
 *
 * What is not here is missing as in an old driver: the bindings raise NVMLError_FunctionNotFound.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15, UNKNOWN = 999 };
enum { MAX_GPUS = 64, LINE = 4096 };

typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned gpu, memory; } utilisation;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } process;
typedef struct { char legacy[16]; unsigned domain, bus, device, pci_device, pci_subsystem; char id[32]; } pci_info;

static int started;
static char handles[MAX_GPUS];

/* The line number `index` of kind `kind` ("system", "gpu") into `line`; 0 if there is none. */
static int find_line(const char *kind, int index, char line[LINE]) {
    const char *path = getenv("HEADWAY_TEST_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    size_t length = strlen(kind);
    int found = 0;
    if (!file)
        return 0;
    while (!found && fgets(line, LINE, file)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, kind, length) == 0 && (line[length] == '\t' || line[length] == 0) && index-- == 0)
            found = 1;
    }
    fclose(file);
    return found;
}

/* The value of `key` in a line, or `otherwise`. */
static const char *value_of(const char *line, const char *key, char value[LINE], const char *otherwise) {
    size_t length = strlen(key);
    for (const char *word = strchr(line, '\t'); word; word = strchr(word + 1, '\t')) {
        if (strncmp(word + 1, key, length) == 0 && word[1 + length] == '=') {
            const char *start = word + length + 2;
            size_t size = strcspn(start, "\t");
            memcpy(value, start, size);
            value[size] = 0;
            return value;
        }
    }
    strcpy(value, otherwise);
    return value;
}

static unsigned long long number_of(const char *line, const char *key) {
    char value[LINE];
    return strtoull(value_of(line, key, value, "0"), NULL, 10);
}

/* The status that the line's `fail` asks of this function. */
static int failing(const char *line, const char *function) {
    char value[LINE];
    value_of(line, "fail", value, "");
    for (char *item = strtok(value, ","); item; item = strtok(NULL, ",")) {
        char *colon = strchr(item, ':');
        if (colon && (*colon = 0, strcmp(item, function) == 0 || strcmp(item, "*") == 0))
            return atoi(colon + 1);
    }
    return OK;
}

static int gpu_count(void) {
    char line[LINE];
    int count = 0;
    while (count < MAX_GPUS && find_line("gpu", count, line))
        count++;
    return count;
}

/* Every call about one GPU begins alike: `line` is what the file says of it. */
static int open_gpu(void *device, const char *function, char line[LINE]) {
    if (!started)
        return UNINITIALIZED;
    int index = (int)((char *)device - handles);
    if (index < 0 || index >= MAX_GPUS)
        return INVALID_ARGUMENT;
    if (!find_line("gpu", index, line))
        return GPU_IS_LOST;
    return failing(line, function);
}
#define OPEN(device)                                                                                                   \
    char line[LINE];                                                                                                   \
    int status = open_gpu(device, __func__, line);                                                                     \
    if (status != OK)                                                                                                  \
        return status

static int copy_text(const char *text, char *to, unsigned size) {
    if (strlen(text) + 1 > size)
        return INSUFFICIENT_SIZE;
    strcpy(to, text);
    return OK;
}

int nvmlInitWithFlags(unsigned flags) {
    char line[LINE];
    (void)flags;
    if (!getenv("HEADWAY_TEST_NVML"))
        return DRIVER_NOT_LOADED;
    if (find_line("system", 0, line) && failing(line, "nvmlInit") != OK)
        return failing(line, "nvmlInit");
    started++;
    return OK;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    if (!started)
        return UNINITIALIZED;
    started--;
    return OK;
}

const char *nvmlErrorString(int status) {
    switch (status) {
    case OK: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case GPU_IS_LOST: return "GPU is lost";
    default: return "Unknown Error";
    }
}

static int system_text(const char *key, const char *otherwise, char *to, unsigned size) {
    char line[LINE], value[LINE];
    if (!started)
        return UNINITIALIZED;
    if (!find_line("system", 0, line))
        strcpy(line, "system");
    return copy_text(value_of(line, key, value, otherwise), to, size);
}
int nvmlSystemGetDriverVersion(char *version, unsigned size) { return system_text("driver", "550.54.15", version, size); }
int nvmlSystemGetNVMLVersion(char *version, unsigned size) { return system_text("nvml", "12.550.54.15", version, size); }
int nvmlSystemGetCudaDriverVersion(int *version) {
    char text[LINE];
    int status = system_text("cuda", "12040", text, sizeof text);
    *version = atoi(text);
    return status;
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) { return nvmlSystemGetCudaDriverVersion(version); }

int nvmlDeviceGetCount_v2(unsigned *count) {
    char line[LINE];
    if (!started)
        return UNINITIALIZED;
    *count = (unsigned)gpu_count();
    /* A driver that fails as a whole, and not for one card. */
    return find_line("system", 0, line) ? failing(line, "nvmlInit") : OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    char line[LINE];
    if (!started)
        return UNINITIALIZED;
    if (index >= MAX_GPUS || !find_line("gpu", (int)index, line))
        return INVALID_ARGUMENT;
    *device = &handles[index];
    return failing(line, __func__);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    char line[LINE], value[LINE];
    if (!started)
        return UNINITIALIZED;
    for (int index = 0; index < gpu_count(); index++)
        if (find_line("gpu", index, line) && strcmp(value_of(line, "uuid", value, ""), uuid) == 0)
            return nvmlDeviceGetHandleByIndex_v2((unsigned)index, device);
    return NOT_FOUND;
}

int nvmlDeviceGetIndex(void *device, unsigned *index) {
    OPEN(device);
    *index = (unsigned)((char *)device - handles);
    return OK;
}
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor) {
    OPEN(device);
    *minor = (unsigned)((char *)device - handles);
    return OK;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size) {
    char value[LINE];
    OPEN(device);
    return copy_text(value_of(line, "uuid", value, ""), uuid, size);
}
int nvmlDeviceGetName(void *device, char *name, unsigned size) {
    char value[LINE];
    OPEN(device);
    return copy_text(value_of(line, "name", value, "Pretend GPU"), name, size);
}

int nvmlDeviceGetMemoryInfo(void *device, memory_v1 *memory) {
    OPEN(device);
    memory->total = number_of(line, "memory");
    /* As in the real library, the first version counts what the driver keeps as used. */
    memory->used = number_of(line, "used") + number_of(line, "reserved");
    memory->free = memory->total - memory->used;
    return OK;
}
int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2 *memory) {
    OPEN(device);
    memory->total = number_of(line, "memory");
    memory->reserved = number_of(line, "reserved");
    memory->used = number_of(line, "used");
    memory->free = memory->total - memory->used - memory->reserved;
    return OK;
}

int nvmlDeviceGetUtilizationRates(void *device, utilisation *rates) {
    OPEN(device);
    rates->gpu = (unsigned)number_of(line, "utilisation");
    rates->memory = (unsigned)number_of(line, "memory_utilisation");
    return OK;
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) {
    OPEN(device);
    if (sensor != 0)
        return INVALID_ARGUMENT;
    *celsius = (unsigned)number_of(line, "temperature");
    return OK;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    OPEN(device);
    *milliwatts = (unsigned)number_of(line, "power");
    return OK;
}
int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
    OPEN(device);
    *current = *pending = 0;
    return NOT_SUPPORTED;
}
int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *count) {
    OPEN(device);
    (void)kind;
    (void)counter;
    *count = 0;
    return NOT_SUPPORTED;
}

static int list_processes(const char *line, const char *key, unsigned *room, process *list) {
    char value[LINE];
    unsigned count = 0, size = *room;
    value_of(line, key, value, "");
    for (char *item = strtok(value, ","); item; item = strtok(NULL, ","), count++) {
        if (count >= size || !list)
            continue;
        char *colon = strchr(item, ':');
        list[count] = (process){(unsigned)atoi(item), colon ? strtoull(colon + 1, NULL, 10) : 0, ~0u, ~0u};
    }
    *room = count;
    return count > size ? INSUFFICIENT_SIZE : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *list) {
    OPEN(device);
    return list_processes(line, "processes", count, list);
}
int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, process *list) {
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, list);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, process *list) {
    OPEN(device);
    return list_processes(line, "graphics", count, list);
}
int nvmlDeviceGetGraphicsRunningProcesses_v2(void *device, unsigned *count, process *list) {
    return nvmlDeviceGetGraphicsRunningProcesses_v3(device, count, list);
}

int nvmlDeviceGetPciInfo_v3(void *device, pci_info *pci) {
    OPEN(device);
    unsigned bus = 1 + (unsigned)((char *)device - handles);
    memset(pci, 0, sizeof *pci);
    pci->bus = bus;
    pci->pci_device = 0x20B010DE;
    snprintf(pci->legacy, sizeof pci->legacy, "0000:%02X:00.0", bus);
    snprintf(pci->id, sizeof pci->id, "00000000:%02X:00.0", bus);
    return OK;
}

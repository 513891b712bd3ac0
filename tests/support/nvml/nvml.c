/* A stand-in for NVIDIA's management library, for machines without a GPU.
 *
 * The real Python bindings load it as libnvidia-ml.so.1. It answers from the text file that HEADWAY_TEST_NVML names,
 * read anew at every call, so that a test can heat a GPU, start a process on it or lose it while others look.
 * Lines are tab-separated words `key=value`; the first says what the line is about:
 *
 *   system  driver=550.54.15  cuda=12040  fail=nvmlInit:9  missing=FUNCTION,…  build=NUMBER
 *   gpu     uuid=GPU-…  name=NVIDIA A100  memory=BYTES  used=BYTES  reserved=BYTES  utilisation=PERCENT
 *           memory_utilisation=PERCENT  temperature=CELSIUS  power=MILLIWATTS  energy=MILLIJOULES
 *           processes=PID:BYTES,…  graphics=PID:BYTES,…  fail=FUNCTION:CODE,…  gone=1  mig=0 or 1
 *           pci=BUS ID  linked=UUID,…  slowdown=CELSIUS  shutdown=CELSIUS  gpu_max=CELSIUS
 *           ecc=CORRECTED:UNCORRECTED (since the driver was loaded)  ecc_total=CORRECTED:UNCORRECTED
 *           remapped=CORRECTABLE:UNCORRECTABLE:PENDING:FAILED  retired=SINGLE:DOUBLE:PENDING (pages)
 *   mig     uuid=MIG-…  parent=GPU-…  name=…  memory=BYTES  used=BYTES  slices=COUNT  instance=NUMBER
 *           processes=PID:BYTES,…  fail=FUNCTION:CODE,…
 *   event   uuid=GPU-…  type=NUMBER  data=XID
 *
 * A card that is `gone` keeps its line, so the others keep their PCI ids. Events are those of lines that were added
 * after a set was made. A process's bytes of -1 are "not available". What a line does not say, the card does not have.
 * What is not here, or is `missing`, is missing as in an old driver: the bindings raise NVMLError_FunctionNotFound.
 * `build`: of the loaded driver; a library that was compiled with another BUILD says that they don't match.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef BUILD
#define BUILD 0
#endif

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       DRIVER_NOT_LOADED = 9, TIMEOUT = 10, FUNCTION_NOT_FOUND = 13, GPU_IS_LOST = 15, MISMATCH = 18, UNKNOWN = 999 };
enum { MAX_GPUS = 64, MAX_SETS = 16, LINE = 4096 };

typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned gpu, memory; } utilisation;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } process;
typedef struct { char legacy[16]; unsigned domain, bus, device, pci_device, pci_subsystem; char id[32]; } pci_info;

typedef struct { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } event_data;
typedef struct { unsigned multiprocessors, copies, decoders, encoders, jpegs, flows, gpu_slices, compute_slices;
                 unsigned long long memory_mb; } attributes;
typedef struct { int open; int next; unsigned long long types[MAX_GPUS]; } event_set;

static int started;
static char handles[MAX_GPUS], slices[MAX_GPUS];
static event_set sets[MAX_SETS];

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

static int has(const char *line, const char *key) {
    char value[LINE];
    return *value_of(line, key, value, "") != 0;
}

/* The number at place `at` of `key=0:1:2`. */
static unsigned long long part_of(const char *line, const char *key, int at) {
    char value[LINE];
    const char *part = value_of(line, key, value, "0");
    while (at-- > 0 && part)
        part = strchr(part, ':') ? strchr(part, ':') + 1 : NULL;
    return part ? strtoull(part, NULL, 10) : 0;
}

/* Whether `word` is one of `key=one,two`. */
static int lists(const char *line, const char *key, const char *word) {
    char value[LINE];
    value_of(line, key, value, "");
    for (char *item = strtok(value, ","); item; item = strtok(NULL, ","))
        if (strcmp(item, word) == 0)
            return 1;
    return 0;
}

/* The status that the line's `fail` asks of this function. */
static int failing(const char *line, const char *function) {
    char value[LINE], system[LINE];
    value_of(line, "fail", value, "");
    for (char *item = strtok(value, ","); item; item = strtok(NULL, ",")) {
        char *colon = strchr(item, ':');
        if (colon && (*colon = 0, strcmp(item, function) == 0 || strcmp(item, "*") == 0))
            return atoi(colon + 1);
    }
    return find_line("system", 0, system) && lists(system, "missing", function) ? FUNCTION_NOT_FOUND : OK;
}

/* The status of the driver as a whole. */
static int driver_status(void) {
    char line[LINE];
    if (!find_line("system", 0, line))
        return OK;
    if (has(line, "build") && number_of(line, "build") != BUILD)
        return MISMATCH;
    return failing(line, "nvmlInit");
}

static int line_count(const char *kind) {
    char line[LINE];
    int count = 0;
    while (find_line(kind, count, line))
        count++;
    return count;
}

/* The place among the lines of the card that the driver counts as `index`; -1: there is none. */
static int place_of(int index) {
    char line[LINE];
    for (int place = 0; place < MAX_GPUS && find_line("gpu", place, line); place++)
        if (!number_of(line, "gone") && index-- == 0)
            return place;
    return -1;
}

/* The place of the line of this kind with this UUID; -1: there is none. */
static int place_by_uuid(const char *kind, const char *uuid) {
    char line[LINE], value[LINE];
    for (int place = 0; place < MAX_GPUS && find_line(kind, place, line); place++)
        if (strcmp(value_of(line, "uuid", value, ""), uuid) == 0)
            return place;
    return -1;
}

static int is_slice(void *device) { return (char *)device >= slices && (char *)device < slices + MAX_GPUS; }
static int is_gpu(void *device) { return (char *)device >= handles && (char *)device < handles + MAX_GPUS; }
static int gpu_place(void *device) { return (int)((char *)device - handles); }

/* The line of a card or of a slice. A slice of a card that is gone is gone too. */
static int device_line(void *device, char line[LINE]) {
    char value[LINE], parent[LINE];
    if (is_slice(device)) {
        if (!find_line("mig", (int)((char *)device - slices), line))
            return 0;
        int place = place_by_uuid("gpu", value_of(line, "parent", value, ""));
        return place >= 0 && find_line("gpu", place, parent) && !number_of(parent, "gone");
    }
    return find_line("gpu", gpu_place(device), line) && !number_of(line, "gone");
}

/* Every call about one card or slice begins alike: `line` is what the file says of it. */
static int open_device(void *device, const char *function, char line[LINE]) {
    if (!started)
        return UNINITIALIZED;
    if (!is_gpu(device) && !is_slice(device))
        return INVALID_ARGUMENT;
    if (!device_line(device, line))
        return GPU_IS_LOST;
    return failing(line, function);
}
#define OPEN_ANY(device)                                                                                               \
    char line[LINE];                                                                                                   \
    int status = open_device(device, __func__, line);                                                                  \
    if (status != OK)                                                                                                  \
        return status
/* As the real library does for what it can tell of whole cards only. */
#define OPEN(device)                                                                                                   \
    OPEN_ANY(device);                                                                                                  \
    if (is_slice(device))                                                                                              \
        return NOT_SUPPORTED
#define NEED(key)                                                                                                      \
    if (!has(line, key))                                                                                               \
        return NOT_SUPPORTED

static int copy_text(const char *text, char *to, unsigned size) {
    if (strlen(text) + 1 > size)
        return INSUFFICIENT_SIZE;
    strcpy(to, text);
    return OK;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!getenv("HEADWAY_TEST_NVML"))
        return DRIVER_NOT_LOADED;
    if (driver_status() != OK)
        return driver_status();
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
    case FUNCTION_NOT_FOUND: return "Function Not Found";
    case MISMATCH: return "Driver/library version mismatch";
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
    if (!started)
        return UNINITIALIZED;
    for (*count = 0; place_of((int)*count) >= 0; (*count)++)
        ;
    /* A driver that fails as a whole, and not for one card. */
    return driver_status();
}

/* The handle of the card at this place among the lines. */
static int handle_at(int place, const char *function, void **device) {
    char line[LINE];
    if (place < 0 || !find_line("gpu", place, line))
        return NOT_FOUND;
    *device = &handles[place];
    return number_of(line, "gone") ? NOT_FOUND : failing(line, function);
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (!started)
        return UNINITIALIZED;
    int place = index < MAX_GPUS ? place_of((int)index) : -1;
    return place < 0 ? INVALID_ARGUMENT : handle_at(place, __func__, device);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    if (!started)
        return UNINITIALIZED;
    int slice = place_by_uuid("mig", uuid);
    if (slice >= 0) {
        *device = &slices[slice];
        return OK;
    }
    return handle_at(place_by_uuid("gpu", uuid), "nvmlDeviceGetHandleByIndex_v2", device);
}

static const char *pci_of(int place, const char *line, char value[LINE]) {
    char made[32];
    snprintf(made, sizeof made, "00000000:%02X:00.0", 1 + place);
    return value_of(line, "pci", value, made);
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
    char line[LINE], value[LINE];
    if (!started)
        return UNINITIALIZED;
    for (int place = 0; place < MAX_GPUS && find_line("gpu", place, line); place++)
        if (strcmp(pci_of(place, line, value), id) == 0)
            return handle_at(place, __func__, device);
    return NOT_FOUND;
}

int nvmlDeviceGetIndex(void *device, unsigned *index) {
    OPEN(device);
    for (*index = 0; place_of((int)*index) != gpu_place(device); (*index)++)
        ;
    return OK;
}
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor) {
    OPEN(device);
    *minor = (unsigned)gpu_place(device);
    return OK;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size) {
    char value[LINE];
    OPEN_ANY(device);
    return copy_text(value_of(line, "uuid", value, ""), uuid, size);
}
int nvmlDeviceGetName(void *device, char *name, unsigned size) {
    char value[LINE];
    OPEN_ANY(device);
    return copy_text(value_of(line, "name", value, "Pretend GPU"), name, size);
}

int nvmlDeviceGetMemoryInfo(void *device, memory_v1 *memory) {
    OPEN_ANY(device);
    memory->total = number_of(line, "memory");
    /* As in the real library, the first version counts what the driver keeps as used. */
    memory->used = number_of(line, "used") + number_of(line, "reserved");
    memory->free = memory->total - memory->used;
    return OK;
}
int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2 *memory) {
    OPEN_ANY(device);
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
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    OPEN(device);
    NEED("energy");
    *millijoules = number_of(line, "energy");
    return OK;
}
int nvmlDeviceGetTemperatureThreshold(void *device, int threshold, unsigned *celsius) {
    static const char *keys[] = {"shutdown", "slowdown", "mem_max", "gpu_max"};
    OPEN(device);
    if (threshold < 0 || threshold > 3)
        return INVALID_ARGUMENT;
    NEED(keys[threshold]);
    *celsius = (unsigned)number_of(line, keys[threshold]);
    return OK;
}

/* -- faults ---------------------------------------------------------------------------------------------- */

int nvmlDeviceGetEccMode(void *device, unsigned *current, unsigned *pending) {
    OPEN(device);
    NEED("ecc");
    *current = *pending = 1;
    return OK;
}
int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *count) {
    OPEN(device);
    NEED("ecc");
    *count = part_of(line, counter == 1 && has(line, "ecc_total") ? "ecc_total" : "ecc", kind == 1);
    return OK;
}
int nvmlDeviceGetRemappedRows(void *device, unsigned *correctable, unsigned *uncorrectable, unsigned *pending,
                              unsigned *failed) {
    OPEN(device);
    NEED("remapped");
    *correctable = (unsigned)part_of(line, "remapped", 0);
    *uncorrectable = (unsigned)part_of(line, "remapped", 1);
    *pending = part_of(line, "remapped", 2) != 0;
    *failed = part_of(line, "remapped", 3) != 0;
    return OK;
}
int nvmlDeviceGetRetiredPages(void *device, int cause, unsigned *count, unsigned long long *pages) {
    OPEN(device);
    NEED("retired");
    unsigned room = *count;
    *count = (unsigned)part_of(line, "retired", cause == 1);
    if (*count > room)
        return INSUFFICIENT_SIZE;
    for (unsigned page = 0; page < *count; page++)
        pages[page] = 4096ull * page;
    return OK;
}
int nvmlDeviceGetRetiredPagesPendingStatus(void *device, int *pending) {
    OPEN(device);
    NEED("retired");
    *pending = part_of(line, "retired", 2) != 0;
    return OK;
}

/* -- events ---------------------------------------------------------------------------------------------- */

int nvmlEventSetCreate(void **set) {
    if (!started)
        return UNINITIALIZED;
    for (int at = 0; at < MAX_SETS; at++) {
        if (!sets[at].open) {
            sets[at] = (event_set){.open = 1, .next = line_count("event")};
            *set = &sets[at];
            return OK;
        }
    }
    return UNKNOWN;
}
int nvmlEventSetFree(void *set) {
    ((event_set *)set)->open = 0;
    return OK;
}
int nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *types) {
    OPEN(device);
    *types = 0x1b;
    return OK;
}
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) {
    OPEN(device);
    ((event_set *)set)->types[gpu_place(device)] |= types;
    return OK;
}
int nvmlEventSetWait_v2(void *wanted, event_data *event, unsigned timeout_ms) {
    event_set *set = wanted;
    char line[LINE], value[LINE];
    if (!started)
        return UNINITIALIZED;
    for (unsigned waited = 0;; waited += 10) {
        for (; find_line("event", set->next, line); set->next++) {
            int place = place_by_uuid("gpu", value_of(line, "uuid", value, ""));
            unsigned long long type = number_of(line, "type");
            if (place < 0 || !(set->types[place] & type))
                continue;
            *event = (event_data){&handles[place], type, number_of(line, "data"), ~0u, ~0u};
            set->next++;
            return OK;
        }
        if (waited >= timeout_ms)
            return TIMEOUT;
        usleep(10000);
    }
}

/* -- slices of a card (MIG) ------------------------------------------------------------------------------ */

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
    OPEN(device);
    *current = *pending = 0;
    NEED("mig");
    *current = *pending = (unsigned)number_of(line, "mig");
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) {
    OPEN(device);
    *count = has(line, "mig") ? 7 : 0;
    return OK;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **slice) {
    char uuid[LINE], other[LINE], value[LINE];
    OPEN(device);
    value_of(line, "uuid", uuid, "");
    for (int place = 0; place < MAX_GPUS && find_line("mig", place, other); place++) {
        if (strcmp(value_of(other, "parent", value, ""), uuid) == 0 && index-- == 0) {
            *slice = &slices[place];
            return failing(other, __func__);
        }
    }
    return NOT_FOUND;
}
int nvmlDeviceIsMigDeviceHandle(void *device, unsigned *answer) {
    *answer = (unsigned)is_slice(device);
    return OK;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *slice, void **device) {
    char value[LINE];
    OPEN_ANY(slice);
    if (!is_slice(slice))
        return INVALID_ARGUMENT;
    *device = &handles[place_by_uuid("gpu", value_of(line, "parent", value, ""))];
    return OK;
}
int nvmlDeviceGetGpuInstanceId(void *slice, unsigned *id) {
    OPEN_ANY(slice);
    if (!is_slice(slice))
        return INVALID_ARGUMENT;
    *id = (unsigned)number_of(line, "instance");
    return OK;
}
int nvmlDeviceGetComputeInstanceId(void *slice, unsigned *id) {
    OPEN_ANY(slice);
    *id = 0;
    return is_slice(slice) ? OK : INVALID_ARGUMENT;
}
int nvmlDeviceGetAttributes_v2(void *slice, attributes *told) {
    OPEN_ANY(slice);
    if (!is_slice(slice))
        return INVALID_ARGUMENT;
    *told = (attributes){.gpu_slices = (unsigned)number_of(line, "slices"),
                         .compute_slices = (unsigned)number_of(line, "slices"),
                         .memory_mb = number_of(line, "memory") >> 20};
    return OK;
}

/* -- NVLink ---------------------------------------------------------------------------------------------- */

/* The place of the card at the other end of a link; -1: there is no such link. */
static int linked_place(const char *line, unsigned link) {
    char value[LINE];
    value_of(line, "linked", value, "");
    for (char *item = strtok(value, ","); item; item = strtok(NULL, ","))
        if (link-- == 0)
            return place_by_uuid("gpu", item);
    return -1;
}
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active) {
    OPEN(device);
    NEED("linked");
    *active = linked_place(line, link) >= 0;
    return OK;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, pci_info *pci);
int nvmlDeviceGetP2PStatus(void *one, void *other, int what, int *answer) {
    char value[LINE], others[LINE];
    OPEN(one);
    if (!device_line(other, others))
        return GPU_IS_LOST;
    /* 2: NVLink. 0: it works, 5: it is not supported. */
    *answer = what == 2 && lists(line, "linked", value_of(others, "uuid", value, "")) ? 0 : 5;
    return OK;
}

/* -- processes ------------------------------------------------------------------------------------------- */

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
    OPEN_ANY(device);
    return list_processes(line, "processes", count, list);
}
int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, process *list) {
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, list);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, process *list) {
    OPEN_ANY(device);
    return list_processes(line, "graphics", count, list);
}
int nvmlDeviceGetGraphicsRunningProcesses_v2(void *device, unsigned *count, process *list) {
    return nvmlDeviceGetGraphicsRunningProcesses_v3(device, count, list);
}

static void fill_pci(int place, const char *line, pci_info *pci) {
    char value[LINE];
    const char *id = pci_of(place, line, value);
    memset(pci, 0, sizeof *pci);
    sscanf(id, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    pci->pci_device = 0x20B010DE;
    snprintf(pci->legacy, sizeof pci->legacy, "%04x:%02X:%02X.0", pci->domain & 0xFFFF, pci->bus & 0xFF, pci->device & 0xFF);
    snprintf(pci->id, sizeof pci->id, "%s", id);
}
int nvmlDeviceGetPciInfo_v3(void *device, pci_info *pci) {
    OPEN(device);
    fill_pci(gpu_place(device), line, pci);
    return OK;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, pci_info *pci) {
    char other[LINE];
    OPEN(device);
    NEED("linked");
    int place = linked_place(line, link);
    if (place < 0 || !find_line("gpu", place, other))
        return NOT_SUPPORTED;
    fill_pci(place, other, pci);
    return OK;
}

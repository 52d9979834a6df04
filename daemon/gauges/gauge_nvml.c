/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA cards, by NVML (libnvidia-ml.so.1 of the driver), loaded if it is there. A function that the library lacks, or
 * that the card does not support, is no sample. A card whose calls say that it is lost has the gauge `lost` alone.
 */
#include <dlfcn.h>

#include "daemon/gauges/gauge.h"

#define CARDS_MAX 64
#define LINKS_MAX 18 /* NVLinks of a card (NVML_NVLINK_MAX_LINKS) */
#define PROCESSES_MAX 64

/* Numbers of nvml.h. */
enum { NVML_SUCCESS = 0, NVML_GPU_IS_LOST = 15, NVML_RESET_REQUIRED = 16 };
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum { NVML_ECC_CORRECTED = 0, NVML_ECC_UNCORRECTED = 1, NVML_ECC_VOLATILE = 0 };
enum { NVML_LINK_REPLAY = 0, NVML_LINK_RECOVERY = 1, NVML_LINK_CRC_FLIT = 2, NVML_LINK_CRC_DATA = 3 };

struct nvml_utilization {
	unsigned gpu, memory; /* percent */
};

struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_pci {
	char address_legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char address[32];
};

/* Of nvmlDeviceGetComputeRunningProcesses_v3. */
struct nvml_process {
	unsigned pid;
	unsigned long long memory_bytes;
	unsigned gpu_instance, compute_instance;
};

typedef struct nvml_device *nvml_card;

/* Functions by which one number of a card is read. */
typedef int nvml_unsigned(nvml_card card, unsigned *ret);
typedef int nvml_typed(nvml_card card, int type, unsigned *ret);

enum nvml_gauge {
	UTILIZATION,
	MEMORY_BUSY,
	MEMORY_USED,
	MEMORY_TOTAL,
	CLOCK_SM,
	CLOCK_SM_MAX,
	CLOCK_MEMORY,
	TEMPERATURE,
	POWER,
	POWER_LIMIT,
	LIMITED_POWER,
	LIMITED_THERMAL,
	LIMITED_HARDWARE,
	LIMITED_BRAKE,
	LIMITED_SYNC,
	ECC_CORRECTED,
	ECC_UNCORRECTED,
	ROWS_CORRECTED,
	ROWS_UNCORRECTED,
	ROWS_PENDING,
	ROWS_FAILED,
	LINKS_UP,
	LINK_REPLAYS,
	LINK_RECOVERIES,
	LINK_CRC_ERRORS,
	PCIE_REPLAYS,
	PCIE_WIDTH,
	PCIE_WIDTH_MAX,
	PCIE_GENERATION,
	PCIE_GENERATION_MAX,
	PROCESSES,
	PROCESS_MEMORY,
	LOST,
	NVML_GAUGES
};

static const struct gauge nvml_gauges[] = {
	[UTILIZATION] = {"utilization", "ratio", GAUGE_LEVEL, 0.01, 0.5, "time in which kernels ran"},
	[MEMORY_BUSY] = {"memory_busy", "ratio", GAUGE_LEVEL, 0.01, 0.5,
		"time in which device memory was read or written"},
	[MEMORY_USED] = {"memory_used", "bytes", GAUGE_LEVEL, 1, 4.0 * (1 << 30), "device memory in use"},
	[MEMORY_TOTAL] = {"memory_total", "bytes", GAUGE_LEVEL, 1, 4.0 * (1 << 30), "device memory of the card"},
	[CLOCK_SM] = {"clock_sm", "Hz", GAUGE_LEVEL, 1e6, 5e7, "clock of the SMs"},
	[CLOCK_SM_MAX] = {"clock_sm_max", "Hz", GAUGE_COUNT, 1e6, 0, "highest clock of the SMs"},
	[CLOCK_MEMORY] = {"clock_memory", "Hz", GAUGE_LEVEL, 1e6, 5e7, "clock of device memory"},
	[TEMPERATURE] = {"temperature", "C", GAUGE_LEVEL, 1, 3, "temperature of the card"},
	[POWER] = {"power", "W", GAUGE_LEVEL, 0.001, 50, "power that it takes"},
	[POWER_LIMIT] = {"power_limit", "W", GAUGE_COUNT, 0.001, 0, "power that it may take"},
	[LIMITED_POWER] = {"limited_power", "1", GAUGE_LEVEL, 1, 0.5, "1: the clock is lowered for the power limit"},
	[LIMITED_THERMAL] = {"limited_thermal", "1", GAUGE_LEVEL, 1, 0.5, "1: the clock is lowered for temperature"},
	[LIMITED_HARDWARE] = {"limited_hardware", "1", GAUGE_LEVEL, 1, 0.5,
		"1: the hardware lowers the clock (power or temperature beyond bounds)"},
	[LIMITED_BRAKE] = {"limited_brake", "1", GAUGE_LEVEL, 1, 0.5, "1: the server's power supply lowers the clock"},
	[LIMITED_SYNC] = {"limited_sync", "1", GAUGE_LEVEL, 1, 0.5, "1: the clock follows that of a group of cards"},
	[ECC_CORRECTED] = {"ecc_corrected", "1", GAUGE_COUNT, 1, 0, "memory errors corrected since the driver's start"},
	[ECC_UNCORRECTED] = {"ecc_uncorrected", "1", GAUGE_COUNT, 1, 0,
		"memory errors not corrected since the driver's start"},
	[ROWS_CORRECTED] = {"rows_remapped_corrected", "1", GAUGE_COUNT, 1, 0,
		"memory rows replaced for corrected errors"},
	[ROWS_UNCORRECTED] = {"rows_remapped_uncorrected", "1", GAUGE_COUNT, 1, 0,
		"memory rows replaced for uncorrected errors"},
	[ROWS_PENDING] = {"rows_remap_pending", "1", GAUGE_COUNT, 1, 0, "1: a row is replaced at the next reset"},
	[ROWS_FAILED] = {"rows_remap_failed", "1", GAUGE_COUNT, 1, 0, "1: a row could not be replaced"},
	[LINKS_UP] = {"nvlinks_up", "1", GAUGE_COUNT, 1, 0, "NVLinks that are up"},
	[LINK_REPLAYS] = {"nvlink_replays", "1", GAUGE_COUNT, 1, 0, "transmissions repeated, all NVLinks"},
	[LINK_RECOVERIES] = {"nvlink_recoveries", "1", GAUGE_COUNT, 1, 0, "recoveries, all NVLinks"},
	[LINK_CRC_ERRORS] = {"nvlink_crc_errors", "1", GAUGE_COUNT, 1, 0, "checksum errors, all NVLinks"},
	[PCIE_REPLAYS] = {"pcie_replays", "1", GAUGE_COUNT, 1, 0, "PCIe transmissions repeated"},
	[PCIE_WIDTH] = {"pcie_width", "lanes", GAUGE_COUNT, 1, 0, "PCIe lanes in use"},
	[PCIE_WIDTH_MAX] = {"pcie_width_max", "lanes", GAUGE_COUNT, 1, 0, "PCIe lanes of card and slot"},
	[PCIE_GENERATION] = {"pcie_generation", "1", GAUGE_COUNT, 1, 0, "PCIe generation in use (idle cards lower it)"},
	[PCIE_GENERATION_MAX] = {"pcie_generation_max", "1", GAUGE_COUNT, 1, 0, "PCIe generation of card and slot"},
	[PROCESSES] = {"processes", "1", GAUGE_COUNT, 1, 0, "processes that compute on the card"},
	[PROCESS_MEMORY] = {"process_memory", "bytes", GAUGE_LEVEL, 1, 4.0 * (1 << 30), "device memory of one process"},
	[LOST] = {"lost", "1", GAUGE_COUNT, 1, 0, "1: the card has fallen off the bus, or needs a reset"},
	[NVML_GAUGES] = {0},
};

/* nvmlClocksEventReasons of nvml.h. */
static const struct {
	unsigned long long bits;
	enum nvml_gauge gauge;
} limits[] = {
	{0x04, LIMITED_POWER},		/* software power cap */
	{0x20 | 0x40, LIMITED_THERMAL}, /* software, hardware thermal slowdown */
	{0x08, LIMITED_HARDWARE},
	{0x80, LIMITED_BRAKE},
	{0x10, LIMITED_SYNC},
};

/* One number, by a function of one shape. */
enum nvml_number {
	N_POWER,
	N_POWER_LIMIT,
	N_PCIE_REPLAYS,
	N_WIDTH,
	N_WIDTH_MAX,
	N_GENERATION,
	N_GENERATION_MAX,
	NUMBERS
};

static const struct {
	const char *symbol;
	enum nvml_gauge gauge;
} numbers[NUMBERS] = {
	[N_POWER] = {"nvmlDeviceGetPowerUsage", POWER},
	[N_POWER_LIMIT] = {"nvmlDeviceGetEnforcedPowerLimit", POWER_LIMIT},
	[N_PCIE_REPLAYS] = {"nvmlDeviceGetPcieReplayCounter", PCIE_REPLAYS},
	[N_WIDTH] = {"nvmlDeviceGetCurrPcieLinkWidth", PCIE_WIDTH},
	[N_WIDTH_MAX] = {"nvmlDeviceGetMaxPcieLinkWidth", PCIE_WIDTH_MAX},
	[N_GENERATION] = {"nvmlDeviceGetCurrPcieLinkGeneration", PCIE_GENERATION},
	[N_GENERATION_MAX] = {"nvmlDeviceGetMaxPcieLinkGeneration", PCIE_GENERATION_MAX},
};

static const struct {
	int type;
	enum nvml_gauge gauge;
} link_errors[] = {
	{NVML_LINK_REPLAY, LINK_REPLAYS},
	{NVML_LINK_RECOVERY, LINK_RECOVERIES},
	{NVML_LINK_CRC_FLIT, LINK_CRC_ERRORS},
	{NVML_LINK_CRC_DATA, LINK_CRC_ERRORS},
};

struct nvml_one {
	nvml_card card;
	char object[GAUGE_OBJECT_BYTES]; /* UUID */
	bool is_described;
};

struct nvml {
	void *library;
	nvml_unsigned *number[NUMBERS];
	nvml_typed *clock, *clock_max, *temperature;
	int (*count)(unsigned *ret);
	int (*by_index)(unsigned index, nvml_card *ret);
	int (*uuid)(nvml_card card, char *ret, unsigned size);
	int (*serial)(nvml_card card, char *ret, unsigned size);
	int (*name)(nvml_card card, char *ret, unsigned size);
	int (*minor)(nvml_card card, unsigned *ret);
	int (*pci)(nvml_card card, struct nvml_pci *ret);
	int (*utilization)(nvml_card card, struct nvml_utilization *ret);
	int (*memory)(nvml_card card, struct nvml_memory *ret);
	int (*reasons)(nvml_card card, unsigned long long *ret);
	int (*ecc)(nvml_card card, int type, int counter, unsigned long long *ret);
	int (*rows)(nvml_card card, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed);
	int (*link_state)(nvml_card card, unsigned link, int *ret_active);
	int (*link_errors)(nvml_card card, unsigned link, int type, unsigned long long *ret);
	int (*processes)(nvml_card card, unsigned *count, struct nvml_process *ret);
	char proc[128];
	unsigned cards;
	struct nvml_one card[CARDS_MAX];
};

/* Functions of one shape each: the address of a member, and its symbols, newest first. */
static const struct {
	size_t offset;
	const char *symbol[2];
} symbols[] = {
	{offsetof(struct nvml, count), {"nvmlDeviceGetCount_v2"}},
	{offsetof(struct nvml, by_index), {"nvmlDeviceGetHandleByIndex_v2"}},
	{offsetof(struct nvml, uuid), {"nvmlDeviceGetUUID"}},
	{offsetof(struct nvml, serial), {"nvmlDeviceGetSerial"}},
	{offsetof(struct nvml, name), {"nvmlDeviceGetName"}},
	{offsetof(struct nvml, minor), {"nvmlDeviceGetMinorNumber"}},
	{offsetof(struct nvml, pci), {"nvmlDeviceGetPciInfo_v3"}},
	{offsetof(struct nvml, clock), {"nvmlDeviceGetClockInfo"}},
	{offsetof(struct nvml, clock_max), {"nvmlDeviceGetMaxClockInfo"}},
	{offsetof(struct nvml, temperature), {"nvmlDeviceGetTemperature"}},
	{offsetof(struct nvml, utilization), {"nvmlDeviceGetUtilizationRates"}},
	{offsetof(struct nvml, memory), {"nvmlDeviceGetMemoryInfo"}},
	{offsetof(struct nvml, reasons),
		{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}},
	{offsetof(struct nvml, ecc), {"nvmlDeviceGetTotalEccErrors"}},
	{offsetof(struct nvml, rows), {"nvmlDeviceGetRemappedRows"}},
	{offsetof(struct nvml, link_state), {"nvmlDeviceGetNvLinkState"}},
	{offsetof(struct nvml, link_errors), {"nvmlDeviceGetNvLinkErrorCounter"}},
	{offsetof(struct nvml, processes), {"nvmlDeviceGetComputeRunningProcesses_v3"}},
};

static void gauge_nvml_symbols(struct nvml *nvml)
{
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
		for (size_t s = 0; s < ARRAY_SIZE(symbols[i].symbol) && symbols[i].symbol[s]; s++) {
			void **member = (void **)(void *)((char *)nvml + symbols[i].offset);

			if (!*member)
				*member = dlsym(nvml->library, symbols[i].symbol[s]);
		}
	for (size_t i = 0; i < NUMBERS; i++)
		*(void **)&nvml->number[i] = dlsym(nvml->library, numbers[i].symbol);
}

static void gauge_nvml_cards(struct nvml *nvml)
{
	unsigned count = 0;

	if (nvml->count(&count) != NVML_SUCCESS)
		count = 0;
	for (unsigned i = 0; i < count && nvml->cards < CARDS_MAX; i++) {
		struct nvml_one *one = &nvml->card[nvml->cards];

		if (nvml->by_index(i, &one->card) != NVML_SUCCESS)
			continue;
		if (!nvml->uuid || nvml->uuid(one->card, one->object, sizeof(one->object)) != NVML_SUCCESS)
			snprintf(one->object, sizeof(one->object), "nvidia%u", i);
		one->object[sizeof(one->object) - 1] = 0;
		nvml->cards++;
	}
}

static int gauge_nvml_fail(struct nvml *nvml, int error, char *why, size_t why_size, const char *library, int code)
{
	if (code < 0)
		snprintf(why, why_size, "%s is not the NVML that is known here", library);
	else
		snprintf(why, why_size, "NVML does not start (error %d); the daemon needs the cards' device nodes",
			code);
	free(nvml);
	return error;
}

static int gauge_nvml_open(const struct gauge_roots *roots, void **ret, char *why, size_t why_size)
{
	struct nvml *nvml = calloc(1, sizeof(*nvml));
	int (*init)(void), r;

	if (!nvml)
		return -ENOMEM;
	nvml->library = dlopen(roots->nvml, RTLD_NOW | RTLD_LOCAL);
	if (!nvml->library) {
		free(nvml);
		return -ENOENT;
	}
	*(void **)&init = dlsym(nvml->library, "nvmlInit_v2");
	gauge_nvml_symbols(nvml);
	r = init && nvml->count && nvml->by_index ? init() : -1;
	if (r != NVML_SUCCESS)
		return gauge_nvml_fail(nvml, r < 0 ? -ENOSYS : -ENODEV, why, why_size, roots->nvml, r);
	(void)copy_text(nvml->proc, sizeof(nvml->proc), roots->proc);
	gauge_nvml_cards(nvml);
	*ret = nvml;
	return 0;
}

static void gauge_nvml_put(struct gauge_batch *batch, const struct nvml_one *one, enum nvml_gauge gauge, double value)
{
	gauge_sample(batch, &nvml_gauges[gauge], one->object, value);
}

/* Who it is; of a card that answers. */
static void gauge_nvml_describe(const struct nvml *nvml, struct gauge_batch *batch, const struct nvml_one *one)
{
	struct gauge_card card = {.minor = -1};
	struct nvml_pci pci = {0};
	char text[96] = "";
	unsigned minor;

	(void)copy_text(card.object, sizeof(card.object), one->object);
	if (nvml->minor && nvml->minor(one->card, &minor) == NVML_SUCCESS)
		card.minor = (int)minor;
	if (nvml->pci && nvml->pci(one->card, &pci) == NVML_SUCCESS)
		snprintf(card.pci, sizeof(card.pci), "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
	if (nvml->serial && nvml->serial(one->card, text, sizeof(text) - 1) == NVML_SUCCESS)
		(void)copy_text(card.serial, sizeof(card.serial), text);
	if (nvml->name && nvml->name(one->card, text, sizeof(text) - 1) == NVML_SUCCESS)
		(void)copy_text(card.name, sizeof(card.name), text);
	gauge_card(batch, &card);
}

static void gauge_nvml_clocks(const struct nvml *nvml, struct gauge_batch *batch, const struct nvml_one *one)
{
	unsigned long long reasons;
	unsigned mhz;

	if (nvml->clock && nvml->clock(one->card, NVML_CLOCK_SM, &mhz) == NVML_SUCCESS)
		gauge_nvml_put(batch, one, CLOCK_SM, mhz);
	if (nvml->clock && nvml->clock(one->card, NVML_CLOCK_MEMORY, &mhz) == NVML_SUCCESS)
		gauge_nvml_put(batch, one, CLOCK_MEMORY, mhz);
	if (nvml->clock_max && nvml->clock_max(one->card, NVML_CLOCK_SM, &mhz) == NVML_SUCCESS)
		gauge_nvml_put(batch, one, CLOCK_SM_MAX, mhz);
	if (!nvml->reasons || nvml->reasons(one->card, &reasons) != NVML_SUCCESS)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		gauge_nvml_put(batch, one, limits[i].gauge, (reasons & limits[i].bits) != 0);
}

static void gauge_nvml_errors(const struct nvml *nvml, struct gauge_batch *batch, const struct nvml_one *one)
{
	unsigned corrected, uncorrected, pending, failed;
	unsigned long long count;

	if (nvml->ecc && nvml->ecc(one->card, NVML_ECC_CORRECTED, NVML_ECC_VOLATILE, &count) == NVML_SUCCESS)
		gauge_nvml_put(batch, one, ECC_CORRECTED, (double)count);
	if (nvml->ecc && nvml->ecc(one->card, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE, &count) == NVML_SUCCESS)
		gauge_nvml_put(batch, one, ECC_UNCORRECTED, (double)count);
	if (!nvml->rows || nvml->rows(one->card, &corrected, &uncorrected, &pending, &failed) != NVML_SUCCESS)
		return;
	gauge_nvml_put(batch, one, ROWS_CORRECTED, corrected);
	gauge_nvml_put(batch, one, ROWS_UNCORRECTED, uncorrected);
	gauge_nvml_put(batch, one, ROWS_PENDING, pending);
	gauge_nvml_put(batch, one, ROWS_FAILED, failed);
}

static void gauge_nvml_links(const struct nvml *nvml, struct gauge_batch *batch, const struct nvml_one *one)
{
	double errors[NVML_GAUGES] = {0};
	bool is_known[NVML_GAUGES] = {0};
	unsigned links = 0, up = 0;

	for (unsigned link = 0; link < LINKS_MAX && nvml->link_state; link++) {
		unsigned long long count;
		int active = 0;

		if (nvml->link_state(one->card, link, &active) != NVML_SUCCESS)
			continue;
		links++;
		up += active != 0;
		for (size_t i = 0; i < ARRAY_SIZE(link_errors) && nvml->link_errors; i++) {
			if (nvml->link_errors(one->card, link, link_errors[i].type, &count) != NVML_SUCCESS)
				continue;
			errors[link_errors[i].gauge] += (double)count;
			is_known[link_errors[i].gauge] = true;
		}
	}
	if (links)
		gauge_nvml_put(batch, one, LINKS_UP, up);
	for (enum nvml_gauge gauge = LINK_REPLAYS; gauge <= LINK_CRC_ERRORS; gauge++)
		if (is_known[gauge])
			gauge_nvml_put(batch, one, gauge, errors[gauge]);
}

static void gauge_nvml_processes(const struct nvml *nvml, struct gauge_batch *batch, const struct nvml_one *one)
{
	struct nvml_process process[PROCESSES_MAX];
	unsigned count = PROCESSES_MAX;

	if (!nvml->processes || nvml->processes(one->card, &count, process) != NVML_SUCCESS || count > PROCESSES_MAX)
		return;
	gauge_nvml_put(batch, one, PROCESSES, count);
	for (unsigned i = 0; i < count; i++) {
		char object[GAUGE_OBJECT_BYTES + 48], path[160], name[32] = "";

		snprintf(path, sizeof(path), "%s/%u/comm", nvml->proc, process[i].pid);
		(void)gauge_file(path, name, sizeof(name));
		name[strcspn(name, "\n")] = 0;
		snprintf(object, sizeof(object), "%.40s/%u%s%.15s", one->object, process[i].pid, name[0] ? " " : "",
			name);
		/* All bits set: unknown. */
		if (process[i].memory_bytes != UINT64_MAX)
			gauge_sample(batch, &nvml_gauges[PROCESS_MEMORY], object, (double)process[i].memory_bytes);
	}
}

/* False: the card is lost. */
static bool gauge_nvml_usage(const struct nvml *nvml, struct gauge_batch *batch, const struct nvml_one *one)
{
	struct nvml_utilization utilization;
	struct nvml_memory memory;
	unsigned celsius;
	int r;

	r = nvml->utilization ? nvml->utilization(one->card, &utilization) : NVML_SUCCESS;
	if (r == NVML_GPU_IS_LOST || r == NVML_RESET_REQUIRED)
		return false;
	if (nvml->utilization && r == NVML_SUCCESS) {
		gauge_nvml_put(batch, one, UTILIZATION, utilization.gpu);
		gauge_nvml_put(batch, one, MEMORY_BUSY, utilization.memory);
	}
	if (nvml->memory && nvml->memory(one->card, &memory) == NVML_SUCCESS) {
		gauge_nvml_put(batch, one, MEMORY_USED, (double)memory.used);
		if (memory.total)
			gauge_nvml_put(batch, one, MEMORY_TOTAL, (double)memory.total);
	}
	if (nvml->temperature && nvml->temperature(one->card, 0, &celsius) == NVML_SUCCESS)
		gauge_nvml_put(batch, one, TEMPERATURE, celsius);
	return true;
}

static int gauge_nvml_read(void *state, struct gauge_batch *batch)
{
	struct nvml *nvml = state;

	for (unsigned i = 0; i < nvml->cards; i++) {
		struct nvml_one *one = &nvml->card[i];
		bool is_there = gauge_nvml_usage(nvml, batch, one);
		unsigned value;

		gauge_nvml_put(batch, one, LOST, !is_there);
		if (!is_there)
			continue;
		if (!one->is_described)
			gauge_nvml_describe(nvml, batch, one);
		one->is_described = true;
		for (size_t n = 0; n < NUMBERS; n++)
			if (nvml->number[n] && nvml->number[n](one->card, &value) == NVML_SUCCESS)
				gauge_nvml_put(batch, one, numbers[n].gauge, value);
		gauge_nvml_clocks(nvml, batch, one);
		gauge_nvml_errors(nvml, batch, one);
		gauge_nvml_links(nvml, batch, one);
		gauge_nvml_processes(nvml, batch, one);
	}
	return 0;
}

const struct gauge_source gauge_source_nvml = {
	.name = "nvml",
	.summary = "NVIDIA cards, by NVML",
	.gauges = nvml_gauges,
	.blocks = true,
	.rows_per_second = 8,
	.open = gauge_nvml_open,
	.read = gauge_nvml_read,
	.close = free,
};

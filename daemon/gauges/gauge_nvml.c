/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA cards, by NVML (libnvidia-ml.so.1 of the driver), loaded if it is there. A function that the library lacks, or
 * that the card does not support, is no sample. A card whose calls say that it is lost has the gauge `lost` alone: the
 * others end when their group is read next.
 *
 * A call can take the driver half a millisecond, with locks that the launches of a job on the card need: groups are few
 * calls each, and only that which says whether the card is there is urgent.
 */
#include <dlfcn.h>

#include "daemon/gauges/gauge.h"

#define CARDS_MAX 64
#define LINKS_MAX 18 /* NVLinks of a card (NVML_NVLINK_MAX_LINKS) */
#define PROCESSES_MAX 64

/* Numbers of nvml.h. */
enum { NVML_SUCCESS = 0, NVML_NOT_SUPPORTED = 3, NVML_GPU_IS_LOST = 15, NVML_RESET_REQUIRED = 16 };
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum { NVML_ECC_CORRECTED = 0, NVML_ECC_UNCORRECTED = 1, NVML_ECC_VOLATILE = 0 };
enum { NVML_LINK_REPLAY = 0, NVML_LINK_RECOVERY = 1, NVML_LINK_CRC_FLIT = 2, NVML_LINK_CRC_DATA = 3 };

struct nvml_utilization {
	unsigned gpu, memory; /* percent */
};

struct nvml_memory {
	unsigned long long total, free, used; /* used: with what the driver keeps for itself */
};

/* nvmlMemory_v2_t of nvml.h, which newer drivers know: what the driver keeps is apart, as in nvidia-smi. */
struct nvml_memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

#define NVML_MEMORY_V2 (sizeof(struct nvml_memory_v2) | 2U << 24) /* NVML_STRUCT_VERSION(Memory, 2) */

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

/* nvmlFieldValue_t */
struct nvml_field {
	unsigned id, scope;
	long long time_us, latency_us;
	unsigned type;
	int result;
	union {
		double real;
		unsigned word;
		unsigned long long whole;
	} value;
};
_Static_assert(sizeof(struct nvml_field) == 40, "an array of them is read by the library");
enum { NVML_TYPE_DOUBLE = 0, NVML_TYPE_UNSIGNED = 1 }; /* others: 64 bits */

typedef struct nvml_device *nvml_card;

/* Functions by which one number of a card is read. */
typedef int nvml_unsigned(nvml_card card, unsigned *ret);
typedef int nvml_typed(nvml_card card, int type, unsigned *ret);

enum nvml_gauge {
	UTILIZATION,
	MEMORY_BUSY,
	MEMORY_USED,
	MEMORY_FREE,
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
	[MEMORY_USED] = {"memory_used", "bytes", GAUGE_LEVEL, 1, 4.0 * (1 << 30),
		"device memory in use; what the driver keeps for itself is apart"},
	[MEMORY_FREE] = {"memory_free", "bytes", GAUGE_LEVEL, 1, 4.0 * (1 << 30), "device memory that is free"},
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

/* Groups, by place in the array. */
enum { PRESENCE, USAGE, CLOCKS, ERRORS, LINKS, PCIE, USERS, LIMITS };

/* One number, by a function of one shape. */
static const struct {
	int group;
	enum nvml_gauge gauge;
	const char *symbol;
} numbers[] = {
	{USAGE, POWER, "nvmlDeviceGetPowerUsage"},
	{PCIE, PCIE_WIDTH, "nvmlDeviceGetCurrPcieLinkWidth"},
	{PCIE, PCIE_GENERATION, "nvmlDeviceGetCurrPcieLinkGeneration"},
	{LIMITS, POWER_LIMIT, "nvmlDeviceGetEnforcedPowerLimit"},
	{LIMITS, PCIE_WIDTH_MAX, "nvmlDeviceGetMaxPcieLinkWidth"},
	{LIMITS, PCIE_GENERATION_MAX, "nvmlDeviceGetMaxPcieLinkGeneration"},
};

#define NUMBERS ARRAY_SIZE(numbers)

struct nvml;
struct nvml_one;

/* What has a number in nvmlDeviceGetFieldValues, which gives several at once, and where a driver or card has none,
 * calls. */
static bool gauge_nvml_ecc(const struct nvml *nvml, const struct nvml_one *one, int which, double *ret);
static bool gauge_nvml_rows(const struct nvml *nvml, const struct nvml_one *one, int which, double *ret);
static bool gauge_nvml_replays(const struct nvml *nvml, const struct nvml_one *one, int which, double *ret);
static bool gauge_nvml_link_errors(const struct nvml *nvml, const struct nvml_one *one, int which, double *ret);

/*
 * NVLink 4 has no count of all links. Its fields of a link (NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY to _CRC, 161 to 163)
 * take as long as the calls, 0.9 ms each on H200 with driver 580, and there is none of them for the checksums of data:
 * calls remain there.
 */
static const struct {
	int group;
	enum nvml_gauge gauge;
	unsigned field; /* NVML_FI_DEV_... */
	bool (*read)(const struct nvml *nvml, const struct nvml_one *one, int which, double *ret);
	int which;
} counts[] = {
	{ERRORS, ECC_CORRECTED, 3, gauge_nvml_ecc, NVML_ECC_CORRECTED},	     /* ECC_SBE_VOL_TOTAL */
	{ERRORS, ECC_UNCORRECTED, 4, gauge_nvml_ecc, NVML_ECC_UNCORRECTED},  /* ECC_DBE_VOL_TOTAL */
	{ERRORS, ROWS_CORRECTED, 142, gauge_nvml_rows, 0},		     /* REMAPPED_COR */
	{ERRORS, ROWS_UNCORRECTED, 143, gauge_nvml_rows, 1},		     /* REMAPPED_UNC */
	{ERRORS, ROWS_PENDING, 144, gauge_nvml_rows, 2},		     /* REMAPPED_PENDING */
	{ERRORS, ROWS_FAILED, 145, gauge_nvml_rows, 3},			     /* REMAPPED_FAILURE */
	{ERRORS, PCIE_REPLAYS, 94, gauge_nvml_replays, 0},		     /* PCIE_REPLAY_COUNTER */
	{LINKS, LINK_REPLAYS, 52, gauge_nvml_link_errors, NVML_LINK_REPLAY}, /* NVLINK_REPLAY_ERROR_COUNT_TOTAL */
	{LINKS, LINK_RECOVERIES, 59, gauge_nvml_link_errors,
		NVML_LINK_RECOVERY}, /* NVLINK_RECOVERY_ERROR_COUNT_TOTAL */
	{LINKS, LINK_CRC_ERRORS, 38, gauge_nvml_link_errors,
		NVML_LINK_CRC_FLIT}, /* NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL */
	{LINKS, LINK_CRC_ERRORS, 45, gauge_nvml_link_errors,
		NVML_LINK_CRC_DATA}, /* NVLINK_CRC_DATA_ERROR_COUNT_TOTAL */
};

#define COUNTS ARRAY_SIZE(counts)

struct nvml_one {
	nvml_card card;
	char object[GAUGE_OBJECT_BYTES]; /* UUID */
	bool is_described, is_lost;
	unsigned links; /* bits of NVLinks that it has */
	/* By which counts are read: what gave one first, so that two ways of counting are never compared. */
	enum { BY_ANY, BY_FIELD, BY_CALLS } by[COUNTS];
};

struct nvml {
	void *library;
	nvml_unsigned *number[NUMBERS];
	nvml_unsigned *replays;
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
	int (*memory_v2)(nvml_card card, struct nvml_memory_v2 *ret);
	int (*reasons)(nvml_card card, unsigned long long *ret);
	int (*ecc)(nvml_card card, int type, int counter, unsigned long long *ret);
	int (*rows)(nvml_card card, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed);
	int (*link_state)(nvml_card card, unsigned link, int *ret_active);
	int (*link_errors)(nvml_card card, unsigned link, int type, unsigned long long *ret);
	int (*fields)(nvml_card card, int count, struct nvml_field *fields);
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
	{offsetof(struct nvml, memory_v2), {"nvmlDeviceGetMemoryInfo_v2"}},
	{offsetof(struct nvml, reasons),
		{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}},
	{offsetof(struct nvml, ecc), {"nvmlDeviceGetTotalEccErrors"}},
	{offsetof(struct nvml, rows), {"nvmlDeviceGetRemappedRows"}},
	{offsetof(struct nvml, link_state), {"nvmlDeviceGetNvLinkState"}},
	{offsetof(struct nvml, link_errors), {"nvmlDeviceGetNvLinkErrorCounter"}},
	{offsetof(struct nvml, replays), {"nvmlDeviceGetPcieReplayCounter"}},
	{offsetof(struct nvml, fields), {"nvmlDeviceGetFieldValues"}},
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

static void gauge_nvml_numbers(
	const struct nvml *nvml, struct gauge_batch *batch, const struct nvml_one *one, int group)
{
	unsigned value;

	for (size_t n = 0; n < NUMBERS; n++)
		if (numbers[n].group == group && nvml->number[n] && nvml->number[n](one->card, &value) == NVML_SUCCESS)
			gauge_nvml_put(batch, one, numbers[n].gauge, value);
}

static bool gauge_nvml_memory(const struct nvml *nvml, const struct nvml_one *one, struct nvml_memory *ret)
{
	struct nvml_memory_v2 memory = {.version = NVML_MEMORY_V2};

	if (!nvml->memory_v2 || nvml->memory_v2(one->card, &memory) != NVML_SUCCESS)
		return nvml->memory && nvml->memory(one->card, ret) == NVML_SUCCESS;
	*ret = (struct nvml_memory){memory.total, memory.free, memory.used};
	return true;
}

static void gauge_nvml_usage(const struct nvml *nvml, struct gauge_batch *batch, struct nvml_one *one)
{
	struct nvml_memory memory;
	unsigned celsius;

	if (gauge_nvml_memory(nvml, one, &memory)) {
		gauge_nvml_put(batch, one, MEMORY_USED, (double)memory.used);
		gauge_nvml_put(batch, one, MEMORY_FREE, (double)memory.free);
		if (memory.total)
			gauge_nvml_put(batch, one, MEMORY_TOTAL, (double)memory.total);
	}
	if (nvml->temperature && nvml->temperature(one->card, 0, &celsius) == NVML_SUCCESS)
		gauge_nvml_put(batch, one, TEMPERATURE, celsius);
	gauge_nvml_numbers(nvml, batch, one, USAGE);
}

static void gauge_nvml_clocks(const struct nvml *nvml, struct gauge_batch *batch, struct nvml_one *one)
{
	unsigned long long reasons;
	unsigned mhz;

	if (nvml->clock && nvml->clock(one->card, NVML_CLOCK_SM, &mhz) == NVML_SUCCESS)
		gauge_nvml_put(batch, one, CLOCK_SM, mhz);
	if (nvml->clock && nvml->clock(one->card, NVML_CLOCK_MEMORY, &mhz) == NVML_SUCCESS)
		gauge_nvml_put(batch, one, CLOCK_MEMORY, mhz);
	if (!nvml->reasons || nvml->reasons(one->card, &reasons) != NVML_SUCCESS)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		gauge_nvml_put(batch, one, limits[i].gauge, (reasons & limits[i].bits) != 0);
}

static void gauge_nvml_limits(const struct nvml *nvml, struct gauge_batch *batch, struct nvml_one *one)
{
	unsigned mhz;

	if (nvml->clock_max && nvml->clock_max(one->card, NVML_CLOCK_SM, &mhz) == NVML_SUCCESS)
		gauge_nvml_put(batch, one, CLOCK_SM_MAX, mhz);
	gauge_nvml_numbers(nvml, batch, one, LIMITS);
}

static void gauge_nvml_pcie(const struct nvml *nvml, struct gauge_batch *batch, struct nvml_one *one)
{
	gauge_nvml_numbers(nvml, batch, one, PCIE);
}

static bool gauge_nvml_ecc(const struct nvml *nvml, const struct nvml_one *one, int which, double *ret)
{
	unsigned long long count;

	if (!nvml->ecc || nvml->ecc(one->card, which, NVML_ECC_VOLATILE, &count) != NVML_SUCCESS)
		return false;
	*ret = (double)count;
	return true;
}

static bool gauge_nvml_rows(const struct nvml *nvml, const struct nvml_one *one, int which, double *ret)
{
	unsigned rows[4];

	if (!nvml->rows || nvml->rows(one->card, &rows[0], &rows[1], &rows[2], &rows[3]) != NVML_SUCCESS)
		return false;
	*ret = rows[which];
	return true;
}

static bool gauge_nvml_replays(const struct nvml *nvml, const struct nvml_one *one, int which, double *ret)
{
	unsigned count;

	(void)which;
	if (!nvml->replays || nvml->replays(one->card, &count) != NVML_SUCCESS)
		return false;
	*ret = count;
	return true;
}

/* Of all links. One that does not give it ends it: none of them does. */
static bool gauge_nvml_link_errors(const struct nvml *nvml, const struct nvml_one *one, int which, double *ret)
{
	*ret = 0;
	for (unsigned link = 0; link < LINKS_MAX && nvml->link_errors; link++) {
		unsigned long long count;

		if (!(one->links >> link & 1))
			continue;
		if (nvml->link_errors(one->card, link, which, &count) != NVML_SUCCESS)
			return false;
		*ret += (double)count;
	}
	return nvml->link_errors && one->links;
}

static double gauge_nvml_field(const struct nvml_field *field)
{
	return field->type == NVML_TYPE_DOUBLE	   ? field->value.real
	       : field->type == NVML_TYPE_UNSIGNED ? field->value.word
						   : (double)field->value.whole;
}

/* All counts of a group by one call; what it does not give, by calls of their own. */
static void gauge_nvml_counts(const struct nvml *nvml, struct gauge_batch *batch, struct nvml_one *one, int group)
{
	struct nvml_field field[COUNTS] = {0};
	double sum[NVML_GAUGES] = {0}, value;
	bool is_known[NVML_GAUGES] = {0}, lacks_part[NVML_GAUGES] = {0}, answered;
	int fields = 0;

	for (size_t i = 0; i < COUNTS; i++)
		if (counts[i].group == group)
			field[fields++].id = counts[i].field;
	answered = nvml->fields && nvml->fields(one->card, fields, field) == NVML_SUCCESS;
	fields = 0;
	for (size_t i = 0; i < COUNTS; i++) {
		const struct nvml_field *of = &field[fields];

		if (counts[i].group != group)
			continue;
		fields++;
		if (one->by[i] != BY_CALLS && answered && of->result == NVML_SUCCESS) {
			one->by[i] = BY_FIELD;
			value = gauge_nvml_field(of);
		} else if (one->by[i] != BY_FIELD && counts[i].read(nvml, one, counts[i].which, &value)) {
			one->by[i] = BY_CALLS;
		} else {
			lacks_part[counts[i].gauge] |= one->by[i] != BY_ANY;
			continue;
		}
		sum[counts[i].gauge] += value;
		is_known[counts[i].gauge] = true;
	}
	for (enum nvml_gauge gauge = 0; gauge < NVML_GAUGES; gauge++)
		if (is_known[gauge] && !lacks_part[gauge])
			gauge_nvml_put(batch, one, gauge, sum[gauge]);
}

static void gauge_nvml_errors(const struct nvml *nvml, struct gauge_batch *batch, struct nvml_one *one)
{
	gauge_nvml_counts(nvml, batch, one, ERRORS);
}

static void gauge_nvml_links(const struct nvml *nvml, struct gauge_batch *batch, struct nvml_one *one)
{
	unsigned up = 0;

	one->links = 0;
	for (unsigned link = 0; link < LINKS_MAX && nvml->link_state; link++) {
		int active = 0;

		if (nvml->link_state(one->card, link, &active) != NVML_SUCCESS)
			continue;
		one->links |= 1U << link;
		up += active != 0;
	}
	if (!one->links)
		return;
	gauge_nvml_put(batch, one, LINKS_UP, up);
	gauge_nvml_counts(nvml, batch, one, LINKS);
}

static void gauge_nvml_processes(const struct nvml *nvml, struct gauge_batch *batch, struct nvml_one *one)
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

/* Whether the card is there, which any of its calls says. */
static int gauge_nvml_read_presence(void *state, struct gauge_batch *batch)
{
	struct nvml *nvml = state;

	for (unsigned i = 0; i < nvml->cards; i++) {
		struct nvml_one *one = &nvml->card[i];
		struct nvml_utilization utilization;
		int r = nvml->utilization ? nvml->utilization(one->card, &utilization) : NVML_NOT_SUPPORTED;

		one->is_lost = r == NVML_GPU_IS_LOST || r == NVML_RESET_REQUIRED;
		gauge_nvml_put(batch, one, LOST, one->is_lost);
		if (r == NVML_SUCCESS) {
			gauge_nvml_put(batch, one, UTILIZATION, utilization.gpu);
			gauge_nvml_put(batch, one, MEMORY_BUSY, utilization.memory);
		}
		if (!one->is_lost && !one->is_described)
			gauge_nvml_describe(nvml, batch, one);
		one->is_described |= !one->is_lost;
	}
	return 0;
}

static int gauge_nvml_each(struct nvml *nvml, struct gauge_batch *batch,
	void (*read)(const struct nvml *nvml, struct gauge_batch *batch, struct nvml_one *one))
{
	for (unsigned i = 0; i < nvml->cards; i++)
		if (!nvml->card[i].is_lost)
			read(nvml, batch, &nvml->card[i]);
	return 0;
}

#define GAUGE_NVML_READ(name) \
	static int gauge_nvml_read_##name(void *state, struct gauge_batch *batch) \
	{ \
		return gauge_nvml_each(state, batch, gauge_nvml_##name); \
	}
GAUGE_NVML_READ(usage)
GAUGE_NVML_READ(clocks)
GAUGE_NVML_READ(errors)
GAUGE_NVML_READ(links)
GAUGE_NVML_READ(pcie)
GAUGE_NVML_READ(processes)
GAUGE_NVML_READ(limits)

const struct gauge_source gauge_source_nvml = {
	.name = "nvml",
	.summary = "NVIDIA cards, by NVML",
	.gauges = nvml_gauges,
	.blocks = true,
	.rows_per_second = 8,
	.open = gauge_nvml_open,
	.group = {[PRESENCE] = {.name = "presence", .read = gauge_nvml_read_presence, .is_urgent = true},
		[USAGE] = {.name = "usage", .read = gauge_nvml_read_usage},
		[CLOCKS] = {.name = "clocks", .read = gauge_nvml_read_clocks},
		[ERRORS] = {.name = "errors", .read = gauge_nvml_read_errors},
		[LINKS] = {.name = "links", .read = gauge_nvml_read_links},
		[PCIE] = {.name = "pcie", .read = gauge_nvml_read_pcie},
		[USERS] = {.name = "processes", .read = gauge_nvml_read_processes},
		[LIMITS] = {.name = "limits", .read = gauge_nvml_read_limits, .every_s = 60}},
	.close = free,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Ascend cards, by DCMI (libdcmi.so of the driver), loaded if it is there. Not run on Ascend hardware. */
#include <dlfcn.h>

#include "daemon/gauges/gauge.h"

#define CARDS_MAX 64

/* Numbers of dcmi_interface_api.h. */
enum { DCMI_UTILIZATION_CORE = 2, DCMI_UTILIZATION_MEMORY = 6, DCMI_FREQUENCY_CORE = 7, DCMI_FREQUENCY_RATED = 9 };

enum { TEMPERATURE, POWER, CORE_BUSY, MEMORY_USED, CLOCK_CORE, CLOCK_CORE_RATED, HEALTH, DCMI_MAX };

static const struct gauge dcmi_gauges[] = {
	[TEMPERATURE] = {"temperature", "C", GAUGE_LEVEL, 1, 3, "temperature of the card"},
	[POWER] = {"power", "W", GAUGE_LEVEL, 0.1, 50, "power that it takes"},
	[CORE_BUSY] = {"utilization", "ratio", GAUGE_LEVEL, 0.01, 0.5, "time in which AI cores were busy"},
	[MEMORY_USED] = {"memory_used_ratio", "ratio", GAUGE_LEVEL, 0.01, 0.1, "memory in use"},
	[CLOCK_CORE] = {"clock_sm", "Hz", GAUGE_LEVEL, 1e6, 5e7, "clock of the AI cores"},
	[CLOCK_CORE_RATED] = {"clock_sm_max", "Hz", GAUGE_COUNT, 1e6, 0, "clock that the AI cores can keep"},
	[HEALTH] = {"health", "1", GAUGE_COUNT, 1, 0, "0: healthy; 1 to 3: minor, important, critical alarm"},
	[DCMI_MAX] = {0},
};

struct dcmi {
	void *library;
	int (*card_list)(int *count, int *list, int size);
	int (*device_in_card)(int card, int *devices, int *mcu, int *cpu);
	int (*temperature)(int card, int device, int *celsius);
	int (*power)(int card, int device, int *deciwatts);
	int (*utilization)(int card, int device, int type, unsigned *percent);
	int (*frequency)(int card, int device, int type, unsigned *mhz);
	int (*health)(int card, int device, unsigned *state);
};

#define DCMI_SYMBOL(dcmi, member, name) (*(void **)&(dcmi)->member = dlsym((dcmi)->library, name))

static int gauge_dcmi_open(const struct gauge_roots *roots, void **ret, char *why, size_t why_size)
{
	struct dcmi dcmi = {.library = dlopen(roots->dcmi, RTLD_NOW | RTLD_LOCAL)}, *copy;
	int (*init)(void), r;

	if (!dcmi.library)
		return -ENOENT;
	*(void **)&init = dlsym(dcmi.library, "dcmi_init");
	DCMI_SYMBOL(&dcmi, card_list, "dcmi_get_card_list");
	DCMI_SYMBOL(&dcmi, device_in_card, "dcmi_get_device_id_in_card");
	DCMI_SYMBOL(&dcmi, temperature, "dcmi_get_device_temperature");
	DCMI_SYMBOL(&dcmi, power, "dcmi_get_device_power_info");
	DCMI_SYMBOL(&dcmi, utilization, "dcmi_get_device_utilization_rate");
	DCMI_SYMBOL(&dcmi, frequency, "dcmi_get_device_frequency");
	DCMI_SYMBOL(&dcmi, health, "dcmi_get_device_health");
	if (!init || !dcmi.card_list || !dcmi.device_in_card) {
		snprintf(why, why_size, "%s is not the DCMI library that is known here", roots->dcmi);
		return -ENOSYS;
	}
	r = init();
	if (r != 0) {
		snprintf(why, why_size, "DCMI does not start: error %d; the daemon needs the card's device nodes", r);
		return -ENODEV;
	}
	copy = malloc(sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	*copy = dcmi;
	*ret = copy;
	return 0;
}

static void gauge_dcmi_device(
	const struct dcmi *dcmi, struct gauge_batch *batch, int card, int device, const char *object)
{
	unsigned value;
	int number;

	if (dcmi->temperature && dcmi->temperature(card, device, &number) == 0)
		gauge_sample(batch, &dcmi_gauges[TEMPERATURE], object, number);
	if (dcmi->power && dcmi->power(card, device, &number) == 0)
		gauge_sample(batch, &dcmi_gauges[POWER], object, number);
	if (dcmi->utilization && dcmi->utilization(card, device, DCMI_UTILIZATION_CORE, &value) == 0)
		gauge_sample(batch, &dcmi_gauges[CORE_BUSY], object, value);
	if (dcmi->utilization && dcmi->utilization(card, device, DCMI_UTILIZATION_MEMORY, &value) == 0)
		gauge_sample(batch, &dcmi_gauges[MEMORY_USED], object, value);
	if (dcmi->frequency && dcmi->frequency(card, device, DCMI_FREQUENCY_CORE, &value) == 0)
		gauge_sample(batch, &dcmi_gauges[CLOCK_CORE], object, value);
}

static void gauge_dcmi_health(
	const struct dcmi *dcmi, struct gauge_batch *batch, int card, int device, const char *object)
{
	unsigned value;

	if (dcmi->health && dcmi->health(card, device, &value) == 0)
		gauge_sample(batch, &dcmi_gauges[HEALTH], object, value);
}

static void gauge_dcmi_rated(
	const struct dcmi *dcmi, struct gauge_batch *batch, int card, int device, const char *object)
{
	unsigned value;

	if (dcmi->frequency && dcmi->frequency(card, device, DCMI_FREQUENCY_RATED, &value) == 0)
		gauge_sample(batch, &dcmi_gauges[CLOCK_CORE_RATED], object, value);
}

static int gauge_dcmi_each(const struct dcmi *dcmi, struct gauge_batch *batch,
	void (*read)(const struct dcmi *dcmi, struct gauge_batch *batch, int card, int device, const char *object))
{
	int list[CARDS_MAX], count = 0;

	if (dcmi->card_list(&count, list, CARDS_MAX) != 0)
		return 0;
	for (int i = 0; i < count && i < CARDS_MAX; i++) {
		int devices = 0, mcu, cpu;

		if (dcmi->device_in_card(list[i], &devices, &mcu, &cpu) != 0)
			continue;
		for (int device = 0; device < devices && device < CARDS_MAX; device++) {
			char object[GAUGE_OBJECT_BYTES];

			snprintf(object, sizeof(object), "npu%d/%d", list[i], device);
			read(dcmi, batch, list[i], device, object);
		}
	}
	return 0;
}

static int gauge_dcmi_read_health(void *state, struct gauge_batch *batch)
{
	return gauge_dcmi_each(state, batch, gauge_dcmi_health);
}

static int gauge_dcmi_read_devices(void *state, struct gauge_batch *batch)
{
	return gauge_dcmi_each(state, batch, gauge_dcmi_device);
}

static int gauge_dcmi_read_rated(void *state, struct gauge_batch *batch)
{
	return gauge_dcmi_each(state, batch, gauge_dcmi_rated);
}

const struct gauge_source gauge_source_dcmi = {
	.name = "dcmi",
	.summary = "Ascend cards, by DCMI",
	.gauges = dcmi_gauges,
	.blocks = true,
	.rows_per_second = 6,
	.open = gauge_dcmi_open,
	.group = {{.name = "health", .read = gauge_dcmi_read_health, .is_urgent = true},
		{.name = "devices", .read = gauge_dcmi_read_devices},
		{.name = "rated", .read = gauge_dcmi_read_rated, .every_s = 60}},
	.close = free,
};

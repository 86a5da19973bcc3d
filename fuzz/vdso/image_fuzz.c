/* SPDX-License-Identifier: MIT */
/*
 * For libFuzzer, with the images of real kernels in seeds/ to begin with: whatever the bytes of an
 * image are, the vDSO reader reads nothing outside of them, and ends. scripts/fuzz runs it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sennit/vdso.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {
		"__vdso_clock_gettime",
		"__vdso_clock_gettime64",
		"__vdso_time",
		"__vdso_getrandom",
		"__kernel_clock_gettime",
		"",
		"nothing",
	};
	static const char *const versions[] = {NULL, "LINUX_2.6", "LINUX_2.6.39"};
	struct sn_vdso vdso;

	if (sn_vdso_open(&vdso, data, size) < 0)
		return 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		for (size_t k = 0; k < sizeof(versions) / sizeof(versions[0]); k++) {
			const uint8_t *place = sn_vdso_find(&vdso, versions[k], names[i]);

			if (place && (place < data || place >= data + size))
				abort();
		}
	}
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * dump: prints this process's vDSO image in hexadecimal. The files of fuzz/vdso/seeds were made
 * from its output, by `xxd -r -p`, on the machine itself (x86_64, i386) and under Debian's kernels
 * for ARM (scripts/arm-kernel); those whose name ends with -made by the script make.
 */
#include <stdio.h>

#include <sennit/vdso.h>

int main(void)
{
	struct sn_vdso vdso;

	if (sn_vdso_self(&vdso) < 0) {
		fprintf(stderr, "dump: this process has no vDSO\n");
		return 1;
	}
	for (size_t i = 0; i < vdso.size; i++)
		printf(i % 32 == 31 ? "%02x\n" : "%02x", vdso.image[i]);
	printf("\n");
	return 0;
}

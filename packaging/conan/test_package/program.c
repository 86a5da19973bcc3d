/* SPDX-License-Identifier: MIT */
#include <sennit/sennit.h>

#include <stdio.h>

static int first(void *arg)
{
	(void)arg;
	return sn_sleep(1000 * 1000);
}

int main(void)
{
	puts(sn_version());
	return sn_run(first, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "io/shortage.h"

static sn_give_up *const *all;
static size_t count;

void sn_shortage_begin(sn_give_up *const *list, size_t n)
{
	all = list;
	count = n;
}

void sn_shortage_met(void)
{
	for (size_t i = 0; i < count; i++)
		all[i]();
}

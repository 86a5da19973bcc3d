/* SPDX-License-Identifier: MIT */
/*
 * The concurrent prime sieve: a chain of tasks, each of which passes on the numbers that its prime
 * does not divide.
 *
 *	example-prime-sieve [how many primes, default 10]
 */
#include <sennit/sennit.h>
#include <stdio.h>
#include <stdlib.h>

typedef sn_chan_of(int) numbers;

struct filter {
	numbers in, out;
	int prime;
};

/* Sends 2, 3, 4, ... until the scope is cancelled. */
static int generate(void *arg)
{
	numbers out = arg;

	for (int i = 2; sn_send(out, i) == 0; i++) {}
	return 0;
}

static int filter(void *arg)
{
	struct filter *self = arg;
	int number;

	while (sn_recv(self->in, &number) == 0)
		if (number % self->prime != 0 && sn_send(self->out, number) < 0)
			break;
	return 0;
}

static int sieve(void *arg)
{
	int wanted = *(int *)arg, err;
	struct filter *filters = calloc((size_t)wanted, sizeof *filters);
	numbers first, last;
	sn_scope *all;

	if (!filters || sn_chan_new_of(&first, 0) < 0 || sn_scope_open(&all, SN_NO_DEADLINE) < 0)
		return 1;
	last = first;
	err = sn_scope_go(all, generate, first);
	for (int i = 0; err == 0 && i < wanted; i++) {
		struct filter *next = &filters[i];

		next->in = last;
		err = sn_recv(next->in, &next->prime);
		if (err == 0)
			err = sn_chan_new_of(&next->out, 0);
		if (err < 0)
			break;
		printf("%d\n", next->prime);
		last = next->out;
		err = sn_scope_go(all, filter, next);
	}
	sn_scope_cancel(all); /* ends every wait of the chain */
	sn_scope_close(all);
	for (int i = 0; i < wanted; i++)
		if (filters[i].out)
			sn_chan_unref_of(filters[i].out);
	sn_chan_unref_of(first);
	free(filters);
	return err < 0;
}

int main(int argc, char **argv)
{
	int wanted = argc > 1 ? atoi(argv[1]) : 10;

	if (wanted < 1) {
		fprintf(stderr, "prime-sieve: how many primes? At least 1\n");
		return 2;
	}
	return sn_run(sieve, &wanted);
}

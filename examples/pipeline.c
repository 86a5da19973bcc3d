/* SPDX-License-Identifier: MIT */
/*
 * A pipeline with cancellation: reads lines, counts their words in several tasks, adds up the
 * counts. When a stage fails, or the time is over, all stages end.
 *
 *	printf 'one two\nthree\n' | example-pipeline [seconds, default 10]
 */
#include <ctype.h>
#include <errno.h>
#include <sennit/sennit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS 4

struct line {
	char text[256];
};

struct pipeline {
	sn_chan_of(struct line) lines;
	sn_chan_of(long) counts;
	sn_chan_of(char) ended; /* one message per worker that has ended */
	long words;
};

/* Reading may block the thread; the other stages continue in that time. */
static int read_lines(void *arg)
{
	struct pipeline *p = arg;
	struct line line;
	int err = 0;

	while (err == 0 && fgets(line.text, sizeof line.text, stdin)) {
		if (!strchr(line.text, '\n') && !feof(stdin))
			return -E2BIG; /* ends the scope, and with it the other stages */
		err = sn_send(p->lines, line);
	}
	sn_chan_close_of(p->lines); /* the workers end once they have received all lines */
	return err;
}

static int count_words(void *arg)
{
	struct pipeline *p = arg;
	struct line line;

	while (sn_recv(p->lines, &line) == 0) {
		long words = 0;

		for (char *c = line.text; *c; c++)
			words += !isspace((unsigned char)*c) &&
				 (c == line.text || isspace((unsigned char)c[-1]));
		if (sn_send(p->counts, words) < 0)
			break;
	}
	return sn_send(p->ended, 0);
}

static int sum_up(void *arg)
{
	struct pipeline *p = arg;
	long words = 0;
	char ended;
	struct sn_case cases[] = {sn_case_recv(p->counts, &words), sn_case_recv(p->ended, &ended)};

	for (int workers = WORKERS; workers > 0;) {
		switch (sn_select(cases, 2, SN_NO_DEADLINE)) {
		case 0:
			p->words += words;
			break;
		case 1:
			workers--;
			break;
		default:
			return 0; /* cancelled */
		}
	}
	/* If both cases are ready, select takes either of them: counts may be left. */
	while (sn_try_recv(p->counts, &words) == 0)
		p->words += words;
	return 0;
}

static int run(void *arg)
{
	struct pipeline p = {.words = 0};
	sn_scope *all;
	int err;

	if (sn_chan_new_of(&p.lines, 16) < 0 || sn_chan_new_of(&p.counts, 16) < 0 ||
	    sn_chan_new_of(&p.ended, 0) < 0 ||
	    sn_scope_open(&all, sn_now() + (int64_t)(*(double *)arg * 1e9)) < 0)
		return 1;
	err = sn_scope_go(all, read_lines, &p);
	for (int i = 0; err == 0 && i < WORKERS; i++)
		err = sn_scope_go(all, count_words, &p);
	if (err == 0)
		err = sn_scope_go(all, sum_up, &p);
	if (err < 0)
		sn_scope_cancel(all);
	err = sn_scope_close(all);
	sn_chan_unref_of(p.lines);
	sn_chan_unref_of(p.counts);
	sn_chan_unref_of(p.ended);
	if (err < 0)
		fprintf(stderr, "pipeline: %s\n", strerror(-err));
	else
		printf("%ld\n", p.words);
	return err < 0;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 10;

	if (!(seconds > 0 && seconds < 1e9)) {
		fprintf(stderr, "pipeline: how many seconds?\n");
		return 2;
	}
	return sn_run(run, &seconds);
}

/* SPDX-License-Identifier: MIT */
/*
 * Keeps a program running: starts it again a second after it has ended. One select waits for all
 * that can happen: a signal, the program's end, the time to start it again, a line on stdin. Try:
 *
 *	example-supervise sleep 5       (Enter restarts it, Ctrl-C ends it)
 *	example-supervise -d 200 false
 *
 * -d: the delay before it starts again, in ms.
 */
#include <errno.h>
#include <poll.h>
#include <sennit/sennit.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000 /* nanoseconds */

struct supervisor {
	const char *const *argv;
	int64_t delay;
	sn_process *program;
	sn_task *waits; /* for its end */
	int64_t restart_at;
	int input; /* -1 after its end */
};

static int wait_for_end(void *arg)
{
	struct sn_process_status status;
	int err = sn_process_wait(arg, &status, SN_NO_DEADLINE);

	if (err < 0)
		return err;
	return status.signum ? 128 + status.signum : status.exit_code;
}

/* Starts the program. If that fails, it is tried again, too. */
static void start(struct supervisor *s)
{
	const struct sn_process_attr attr = SN_PROCESS_ATTR_INIT(.flags = SN_PROCESS_GROUP);
	int err = sn_process_start(&s->program, s->argv, &attr);

	s->restart_at = SN_NO_DEADLINE;
	if (err == 0) {
		printf("started, process %d\n", (int)sn_process_pid(s->program));
		err = sn_spawn(&s->waits, wait_for_end, s->program, NULL);
	}
	if (err < 0) {
		printf("cannot start %s: %s\n", s->argv[0], strerror(-err));
		s->restart_at = sn_after(s->delay);
	}
}

static void ended(struct supervisor *s, int how)
{
	printf("ended with %d\n", how);
	sn_process_close(s->program);
	s->program = NULL;
	s->waits = NULL; /* sn_select() has joined the task */
	s->restart_at = sn_after(s->delay);
}

/* Reads what was typed. A line ends the program, which then starts again. */
static void read_input(struct supervisor *s)
{
	char line[256];

	if (read(s->input, line, sizeof line) <= 0)
		s->input = -1;
	else if (s->program)
		sn_process_kill_group(s->program, SIGTERM);
}

static int supervise(struct supervisor *s, sn_chan *signals)
{
	int signum, how = 0, n;

	for (;;) {
		/* A case of something that does not exist at present is never ready. */
		struct sn_case cases[] = {
			{.chan = signals, .elem = &signum, .op = SN_CASE_RECV},
			sn_case_join(s->waits, &how),
			sn_case_time(s->restart_at),
			sn_case_poll(s->input, POLLIN),
		};

		n = sn_select(cases, sizeof cases / sizeof cases[0], SN_NO_DEADLINE);
		if (n <= 0)
			break;
		if (n == 1)
			ended(s, how);
		else if (n == 2)
			start(s);
		else
			read_input(s);
	}
	if (s->program) {
		sn_process_kill_group(s->program, SIGTERM);
		sn_join(s->waits, &how);
		ended(s, how);
	}
	return n;
}

static int run(void *arg)
{
	const int ends[] = {SIGTERM, SIGINT};
	sn_chan *signals;
	int err = sn_chan_new(&signals, sizeof(int), 4);

	if (err < 0)
		return err;
	err = sn_signal_send_to(signals, ends, 2);
	if (err == 0) {
		start(arg);
		err = supervise(arg, signals);
		sn_signal_stop(signals);
	}
	sn_chan_unref(signals);
	return err;
}

int main(int argc, char **argv)
{
	struct supervisor s = {.delay = 1000 * (int64_t)MS, .input = STDIN_FILENO};
	int first = 1, err;

	if (argc > 2 && strcmp(argv[1], "-d") == 0) {
		s.delay = atoll(argv[2]) * MS;
		first = 3;
	}
	if (first >= argc || argv[first][0] == '-') {
		fprintf(stderr, "usage: %s [-d MS] PROGRAM [ARGUMENT...]\n", argv[0]);
		return 2;
	}
	s.argv = (const char *const *)&argv[first];
	setvbuf(stdout, NULL, _IOLBF, 0);
	err = sn_run(run, &s);
	if (err < 0)
		fprintf(stderr, "supervise: %s\n", strerror(-err));
	return err < 0;
}

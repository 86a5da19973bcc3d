/* SPDX-License-Identifier: MIT */
/*
 * Runs commands, a few at a time, and prints what each has written, in one piece. Try:
 *
 *	example-run-all 4 'uname -a' 'ls /' 'sleep 1; echo done' 'echo failed >&2; false'
 *
 * Each command is a task of one scope. A semaphore limits how many run at the same time. A command
 * that takes longer than a minute is killed, with the processes that it has started. Ctrl-C cancels
 * the scope, and with it all commands. The exit status is 1 when a command has failed.
 */
#include <errno.h>
#include <sennit/sennit.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE 60000000000
#define MOST_OUTPUT (16 << 20)

struct all {
	sn_semaphore room;
	sn_mutex printing;
	int failed; /* under printing */
};

struct command {
	struct all *all;
	char *text;
};

static void print(struct command *command, const struct sn_process_result *result, int err)
{
	const struct sn_process_status *status = &result->status;

	printf("$ %s\n", command->text);
	fwrite(result->out, 1, result->out_size, stdout);
	if (err < 0)
		printf("(%s)\n", strerror(-err));
	else if (status->signum)
		printf("(signal %d)\n", status->signum);
	else if (status->exit_code)
		printf("(exit status %d)\n", status->exit_code);
	command->all->failed |= err < 0 || status->signum || status->exit_code;
}

static int run_command(struct command *command)
{
	const char *argv[] = {"sh", "-c", command->text, NULL};
	const struct sn_process_attr attr =
		SN_PROCESS_ATTR_INIT(.err = {.kind = SN_PROCESS_STDOUT}, .flags = SN_PROCESS_GROUP);
	struct sn_process_result result;
	int err = sn_process_output(&result, argv, NULL, 0, MOST_OUTPUT, &attr, sn_after(MINUTE));
	int locked = sn_mutex_lock(&command->all->printing);

	if (locked == 0) {
		print(command, &result, err);
		sn_mutex_unlock(&command->all->printing);
	}
	sn_process_result_free(&result);
	return locked;
}

static int wait_and_run(void *arg)
{
	struct command *command = arg;
	int err = sn_semaphore_acquire(&command->all->room);

	if (err < 0)
		return err;
	err = run_command(command);
	sn_semaphore_release(&command->all->room, 1);
	return err;
}

/* Ends the scope on Ctrl-C. */
static int watch_signals(void *arg)
{
	if (sn_signal_wait(SN_NO_DEADLINE) == SIGINT)
		sn_scope_cancel(arg);
	return 0;
}

static int run_all(struct all *all, char **texts, int n)
{
	struct command *commands = calloc((size_t)n, sizeof *commands);
	sn_scope *scope;
	int err;

	if (!commands)
		return -ENOMEM;
	/* The signal is caught before the first command starts, so that no Ctrl-C is missed. */
	err = sn_signal_catch(SIGINT);
	if (err == 0)
		err = sn_scope_open(&scope, SN_NO_DEADLINE);
	if (err < 0) {
		free(commands);
		return err;
	}
	err = sn_go(watch_signals, scope);
	for (int i = 0; i < n && err == 0; i++) {
		commands[i] = (struct command){all, texts[i]};
		err = sn_scope_go(scope, wait_and_run, &commands[i]);
	}
	if (err < 0)
		sn_scope_cancel(scope);
	err = sn_scope_close(scope);
	free(commands);
	return err;
}

static int first(void *arg)
{
	char **argv = arg;
	int n = 0, at_once = argv[1] ? atoi(argv[1]) : 0, err;
	struct all all = {.room = SN_SEMAPHORE_INIT((uint32_t)at_once)};

	while (at_once > 0 && argv[2 + n])
		n++;
	if (n == 0) {
		fprintf(stderr, "usage: example-run-all AT-ONCE COMMAND...\n");
		return 2;
	}
	err = run_all(&all, argv + 2, n);
	if (err < 0)
		fprintf(stderr, "run-all: %s\n", strerror(-err));
	return err < 0 || all.failed;
}

int main(int argc, char **argv)
{
	(void)argc;
	return sn_run(first, argv);
}

/* SPDX-License-Identifier: MIT */
/*
 * A program whose threads change what the kernel keeps for each thread, for run_test.py: others do
 * not get it. Prints what does not hold, and its status is the number of such lines.
 *
 *	apart identity  setfsuid() and setfsgid(), by root
 *	apart view      unshare(), which needs no rights for this
 */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

int failures;

#define OTHERS 20
#define CLIENT 65533

static sem_t changed, looked;
static bool restores;

static void await(sem_t *sem)
{
	while (sem_wait(sem) < 0)
		;
}

static void join(pthread_t thread)
{
	CHECK(pthread_join(thread, NULL) == 0);
}

/* ---- identity ---- */

static bool is(int uid, int gid)
{
	return setfsuid((uid_t)-1) == uid && setfsgid((gid_t)-1) == gid;
}

static void *inherit_identity(void *arg)
{
	CHECK(is(CLIENT, CLIENT));
	return arg;
}

static void *be_client(void *arg)
{
	CHECK(setfsgid(CLIENT) == 0);
	CHECK(setfsuid(CLIENT) == 0);
	sem_post(&changed);
	await(&looked);
	CHECK(is(CLIENT, CLIENT));
	join(start(inherit_identity, NULL));
	if (restores) {
		CHECK(setfsuid(0) == CLIENT);
		CHECK(setfsgid(0) == CLIENT);
		CHECK(is(0, 0));
	}
	return arg;
}

static void *be_root(void *arg)
{
	CHECK(is(0, 0));
	usleep(1000);
	CHECK(is(0, 0));
	return arg;
}

/* ---- view ---- */

static char first_folder[PATH_MAX];

static bool is_in(const char *folder)
{
	char path[PATH_MAX];

	return getcwd(path, sizeof path) && strcmp(path, folder) == 0;
}

static void *inherit_view(void *arg)
{
	CHECK(is_in("/proc"));
	return arg;
}

static void *be_elsewhere(void *arg)
{
	CHECK(unshare(-1) < 0);
	CHECK(unshare(CLONE_FS) == 0);
	CHECK(chdir("/proc") == 0);
	sem_post(&changed);
	await(&looked);
	CHECK(is_in("/proc"));
	join(start(inherit_view, NULL));
	return arg;
}

static void *be_here(void *arg)
{
	CHECK(is_in(first_folder));
	usleep(1000);
	CHECK(is_in(first_folder));
	return arg;
}

/* ---- both ---- */

static void start_others(void *(*other)(void *arg))
{
	pthread_t threads[OTHERS];

	for (int i = 0; i < OTHERS; i++)
		threads[i] = start(other, NULL);
	for (int i = 0; i < OTHERS; i++)
		join(threads[i]);
}

/* Others run while a thread has what is its own, and when it has ended. */
static void check(void *(*one)(void *arg), void *(*other)(void *arg))
{
	pthread_t thread = start(one, NULL);

	await(&changed);
	start_others(other);
	sem_post(&looked);
	join(thread);
	start_others(other);
}

int main(int argc, char **argv)
{
	CHECK(sem_init(&changed, 0, 0) == 0 && sem_init(&looked, 0, 0) == 0);
	CHECK(getcwd(first_folder, sizeof first_folder));
	if (argc > 1 && strcmp(argv[1], "view") == 0) {
		check(be_elsewhere, be_here);
		return failures;
	}
	check(be_client, be_root);
	restores = true;
	check(be_client, be_root);
	return failures;
}

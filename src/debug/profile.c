/* SPDX-License-Identifier: MIT */
#include "debug/profile.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>

#include <sennit/clock.h>
#include <sennit/task.h>

#include "arch/compiler.h"
#include "debug/dump.h"
#include "sched/foreign.h"
#include "sched/scan_serve.h"
#include "sched/thread.h"

/* Weak, because static programs have no such functions, and others may not link them. */
extern void *dlopen(const char *file, int mode) __attribute__((weak));
extern int dlclose(void *handle) __attribute__((weak));
extern int dlinfo(void *handle, int request, void *info) __attribute__((weak));

static int note_name(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct sn_profile *profile = arg;
	const size_t bytes = strlen(info->dlpi_name) + 1;

	(void)size;
	if (bytes > 1 && bytes <= sizeof profile->names - profile->names_used) {
		memcpy(profile->names + profile->names_used, info->dlpi_name, bytes);
		profile->names_used += bytes;
	}
	return 0;
}

static void hold(struct sn_profile *profile, const char *name)
{
	void *library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
	struct link_map *map;

	if (!library)
		return;
	if (dlinfo(library, RTLD_DI_LINKMAP, &map) < 0) {
		dlclose(library);
		return;
	}
	profile->libraries[profile->held] = library;
	profile->held_at[profile->held++] = (uintptr_t)map->l_ld;
}

/* Whether a module stays mapped. Libraries that are kept open do. So do the program (the first
 * module), the loader and the vDSO, which are never unloaded, but may have no name by which to open
 * them. */
static bool stays(const struct sn_profile *profile, const struct sn_module *module)
{
	const uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);

	if (module == &profile->modules.all[0] || module->base == getauxval(AT_BASE) ||
	    (vdso >= module->low && vdso < module->high))
		return true;
	for (int i = 0; i < profile->held; i++)
		if (profile->held_at[i] >= module->low && profile->held_at[i] < module->high)
			return true;
	return false;
}

/*
 * Keeps only modules that stay mapped for the time of the profile. Libraries are held by opening
 * them by name. The names are copied, because they are unmapped with their libraries. Then the list
 * of modules is read again, and those that are not held are left out: they were loaded in between,
 * or could not be held.
 *
 * dlopen() and dlclose() are called without the lock that is held across fork() (dump.h): dlclose()
 * runs the destructors of a library that the program has closed in between, and dlopen() waits for
 * another thread's constructors. Either may fork, or ask for a dump, and would wait for that lock.
 * A child of a fork() at this very moment may therefore find the loader's lock taken, as after any
 * dlopen() by the program.
 */
static void hold_libraries(struct sn_profile *profile)
{
	struct sn_modules *modules = &profile->modules;
	int staying = 0;

	if (!dlopen || !dlclose || !dlinfo) {
		sn_dump_find_modules(modules);
		return;
	}
	sn_dump_lock_loader();
	dl_iterate_phdr(note_name, profile);
	sn_dump_unlock_loader();
	for (size_t at = 0; at < profile->names_used && profile->held < SN_MOST_MODULES;
	     at += strlen(profile->names + at) + 1)
		hold(profile, profile->names + at);
	sn_dump_find_modules(modules);
	for (int i = 0; i < modules->count; i++)
		if (stays(profile, &modules->all[i]))
			modules->all[staying++] = modules->all[i];
	modules->count = staying;
}

struct sn_profile *sn_profile_begin(size_t size)
{
	struct sn_profile *profile = mmap(NULL, size, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (profile == MAP_FAILED)
		return NULL;
	if (sn_samples_begin(&profile->samples) < 0) {
		munmap(profile, size);
		return NULL;
	}
	hold_libraries(profile);
	profile->began = sn_walltime();
	profile->began_mono = sn_now();
	return profile;
}

void sn_profile_end(struct sn_profile *profile, size_t size)
{
	sn_samples_end(&profile->samples);
	for (int i = 0; i < profile->held; i++)
		dlclose(profile->libraries[i]);
	munmap(profile, size);
}

/* ---- writing ---- */

static void write_sample(struct sn_pprof *pprof, const struct sn_sample_key *key,
			 _Atomic int64_t *sums, int count, int64_t scale)
{
	int64_t values[SN_SAMPLE_VALUES];

	for (int i = 0; i < count; i++)
		values[i] = atomic_load(&sums[i]);
	values[0] = (values[0] + scale / 2) / scale;
	sn_pprof_sample(pprof, key, values);
}

static void write_left_out(struct sn_pprof *pprof, struct sn_samples *samples, int count,
			   int64_t scale)
{
	static const struct sn_sample_key nothing;
	const uint64_t events = atomic_load(&samples->left_out);
	char text[96];

	if (events == 0)
		return;
	snprintf(text, sizeof text,
		 "%llu events are missing: the profile has no room for more places",
		 (unsigned long long)events);
	sn_pprof_comment(pprof, text);
	write_sample(pprof, &nothing, samples->left_out_values, count, scale);
}

int sn_profile_write(struct sn_profile *profile, int fd, struct sn_pprof_attr *attr, int64_t scale,
		     const char *comment)
{
	struct sn_samples *samples = &profile->samples;
	struct sn_pprof *pprof;

	attr->time = profile->began;
	pprof = sn_pprof_begin(fd, &profile->modules, attr);
	if (!pprof)
		return -ENOMEM;
	for (struct sn_sample *sample = NULL; (sample = sn_samples_next(samples, sample)) != NULL;)
		write_sample(pprof, &sample->key, sample->values, attr->count, scale);
	write_left_out(pprof, samples, attr->count, scale);
	if (comment)
		sn_pprof_comment(pprof, comment);
	return sn_pprof_end(pprof);
}

/* ---- public calls ---- */

int sn_profile_check(int64_t duration_ns)
{
	int err;

	if (duration_ns < 0)
		return -EINVAL;
	if (sn_scan_depth > 0)
		return -EDEADLK;
	err = sn_foreign_enter();
	if (err == 0)
		sn_foreign_leave();
	return err;
}

int sn_profile_sleep(int64_t duration_ns)
{
	struct timespec rest = {.tv_sec = (time_t)(duration_ns / 1000000000),
				.tv_nsec = (long)(duration_ns % 1000000000)};
	struct sn_thread *self = sn_thread_self();

	if (self && self->task)
		return sn_sleep(duration_ns);
	while (nanosleep(&rest, &rest) < 0 && errno == EINTR)
		;
	return 0;
}

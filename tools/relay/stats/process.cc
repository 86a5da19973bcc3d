/* SPDX-License-Identifier: MIT */
#include "stats/process.hpp"

#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace relay
{
namespace
{

/* At most the first 16 KiB of the file; empty if it cannot be read. */
std::string beginning_of(const char *path)
{
	const std::unique_ptr<std::FILE, int (*)(std::FILE *)> in(std::fopen(path, "re"),
								  std::fclose);
	std::string text(16384, '\0');
	text.resize(in ? std::fread(text.data(), 1, text.size(), in.get()) : 0);
	return text;
}

/* The time of the kernel's start, since 1970. Only a step of the clock changes it. */
std::chrono::seconds boot_time()
{
	/* The line "btime" comes after one for each CPU and a long one of interrupts. */
	const std::unique_ptr<std::FILE, int (*)(std::FILE *)> in(std::fopen("/proc/stat", "re"),
								  std::fclose);
	char line[256];
	long long seconds = 0;
	while (in && std::fgets(line, sizeof line, in.get()))
		if (std::sscanf(line, "btime %lld", &seconds) == 1)
			break;
	return std::chrono::seconds(seconds);
}

std::uint64_t entries_of(const char *folder)
{
	const std::unique_ptr<DIR, int (*)(DIR *)> dir(opendir(folder), closedir);
	std::uint64_t n = 0;
	while (dir && readdir(dir.get()))
		n++;
	return n > 3 ? n - 3 : 0; /* without ".", ".." and the folder's own descriptor */
}

std::chrono::microseconds to_duration(const timeval &time)
{
	return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

} // namespace

process_use read_process_use()
{
	process_use now;
	rusage used{};
	rlimit limit{};
	if (getrusage(RUSAGE_SELF, &used) == 0)
		now.cpu = to_duration(used.ru_utime) + to_duration(used.ru_stime);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		now.descriptor_limit = limit.rlim_cur;
	now.descriptors = entries_of("/proc/self/fd");

	/* After the program's name in parentheses: state is the 1st, threads the 18th, the start in
	 * ticks since boot the 20th, the address space the 21st, resident pages the 22nd. */
	const std::string stat = beginning_of("/proc/self/stat");
	const auto name = stat.rfind(')');
	unsigned long long threads = 0;
	unsigned long long start = 0;
	unsigned long long space = 0;
	unsigned long long pages = 0;
	if (name == stat.npos ||
	    std::sscanf(stat.c_str() + name + 1,
			" %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu "
			"%*s %llu %llu %llu",
			&threads, &start, &space, &pages) != 4)
		return now;
	now.threads = threads;
	now.address_space = space;
	now.resident = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
	const auto ticks = static_cast<unsigned long long>(sysconf(_SC_CLK_TCK));
	/* This is also right in a time namespace, which shifts both /proc/stat and the start. */
	now.started = boot_time() + std::chrono::milliseconds(start * 1000 / ticks);
	return now;
}

} // namespace relay

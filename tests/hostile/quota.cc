// SPDX-License-Identifier: MIT
#include "hostile/quota.hpp"

#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hostile
{
namespace
{

constexpr const char *root = "/sys/fs/cgroup"; // where the runtime looks for cgroups

std::string group; // the folder of the group that the test has created
int limit = -1;    // the descriptor of cpu.max

bool write_to(const std::string &path, const std::string &text)
{
	const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	const bool well = write(fd, text.data(), text.size()) == (ssize_t)text.size();
	close(fd);
	return well;
}

// This process's group in the v2 hierarchy, from the root; "" if it has none.
std::string own_group()
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[4096];
	std::string path;

	while (file && fgets(line, sizeof line, file))
		if (strncmp(line, "0::/", 4) == 0) {
			line[strcspn(line, "\n")] = 0;
			path = line + 3;
		}
	if (file)
		fclose(file);
	return path;
}

bool make_group()
{
	const std::string own = own_group();

	if (own.empty())
		return false;
	const std::string path =
		root + (own == "/" ? "" : own) + "/sennit-hostile-" + std::to_string(getpid());
	if (mkdir(path.c_str(), 0755) < 0)
		return false;
	limit = open((path + "/cpu.max").c_str(), O_WRONLY | O_CLOEXEC);
	if (limit < 0 || !write_to(path + "/cpu.max", "max 100000")) {
		rmdir(path.c_str());
		return false;
	}
	group = path;
	return true;
}

bool make_stand_in()
{
	const std::string path = std::string(root) + "/cpu.max";

	if (own_group().empty() || unshare(CLONE_NEWNS) < 0 ||
	    mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0 ||
	    mount("tmpfs", root, "tmpfs", 0, "size=64k") < 0)
		return false;
	limit = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	return limit >= 0 && quota_set(0);
}

} // namespace

std::string quota_prepare(bool *usable)
{
	*usable = true;
	if (make_group())
		return "";
	if (make_stand_in())
		return "a file stands in for cpu.max, because no cgroup can be made here";
	*usable = false;
	return "neither a cgroup nor a mount can be made here";
}

void quota_enter()
{
	if (!group.empty() && !write_to(group + "/cgroup.procs", "0"))
		limit = -1;
}

bool quota_set(long microseconds)
{
	char text[64];

	// The text always has the same length, so that a reader of the file finds nothing
	// half-written.
	if (microseconds)
		snprintf(text, sizeof text, "%-10ld 100000\n", microseconds);
	else
		snprintf(text, sizeof text, "%-10s 100000\n", "max");
	return limit >= 0 && pwrite(limit, text, strlen(text), 0) == (ssize_t)strlen(text);
}

void quota_remove()
{
	if (!group.empty())
		rmdir(group.c_str());
}

} // namespace hostile

// SPDX-License-Identifier: MIT
//
// A control group of the test's own, below the one in which it runs. That needs a writable
// hierarchy with the controller, which root has on many machines and few containers have. Where it
// cannot be made, why() says what was tried, for the test to be skipped.
#ifndef SENNIT_TESTS_SUPPORT_OWN_CGROUP_H
#define SENNIT_TESTS_SUPPORT_OWN_CGROUP_H

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace test
{

class OwnCgroup
{
public:
	// The controller is "cpu" or "pids".
	explicit OwnCgroup(const std::string &controller) : maker_(getpid())
	{
		std::ifstream mounts("/proc/self/mounts");

		why_ = "no hierarchy with the controller " + controller + " is mounted";
		for (std::string line; folder_.empty() && std::getline(mounts, line);) {
			std::string device, where, type, options;

			std::istringstream(line) >> device >> where >> type >> options;
			if (type == "cgroup" && has(options, ',', controller))
				make(where + path_of(':' + controller + ':'));
			else if (type == "cgroup2")
				make_second(where + path_of("0::"), controller);
		}
	}
	// A child process that has copied the object leaves the group alone.
	~OwnCgroup()
	{
		if (getpid() == maker_ && !folder_.empty())
			rmdir(folder_.c_str());
	}
	OwnCgroup(const OwnCgroup &) = delete;
	OwnCgroup &operator=(const OwnCgroup &) = delete;

	bool exists() const { return !folder_.empty(); }
	const std::string &why() const { return why_; }
	bool is_second_version() const { return second_; }
	// The calling process moves into the group. It must end before the object does.
	bool enter() const { return set("cgroup.procs", "0"); }
	bool set(const std::string &file, const std::string &text) const
	{
		return write_to(folder_ + '/' + file, text);
	}
	std::string get(const std::string &file) const
	{
		std::string text;

		std::getline(std::ifstream(folder_ + '/' + file), text);
		return text;
	}

private:
	static bool has(const std::string &list, char separator, const std::string &word)
	{
		std::istringstream in(list);

		for (std::string each; std::getline(in, each, separator);)
			if (each == word)
				return true;
		return false;
	}
	static bool write_to(const std::string &path, const std::string &text)
	{
		const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
		const bool well =
			fd >= 0 && write(fd, text.data(), text.size()) == ssize_t(text.size());

		if (fd >= 0)
			close(fd);
		return well;
	}
	// The process's group in the hierarchy with this in its line; "" for the root.
	static std::string path_of(const std::string &mark)
	{
		std::ifstream groups("/proc/self/cgroup");

		for (std::string line; std::getline(groups, line);) {
			const size_t at = line.find(mark);

			if (at != std::string::npos) {
				const std::string path = line.substr(at + mark.size());
				return path == "/" ? "" : path;
			}
		}
		return "";
	}
	void make(const std::string &parent)
	{
		const std::string path = parent + "/sennit-test-" + std::to_string(getpid());

		if (mkdir(path.c_str(), 0755) == 0)
			folder_ = path;
		else
			why_ = "no group can be made in " + parent + ": " + strerror(errno);
	}
	void make_second(const std::string &parent, const std::string &controller)
	{
		std::string available;

		std::getline(std::ifstream(parent + "/cgroup.controllers"), available);
		if (!has(available, ' ', controller))
			return;
		if (!write_to(parent + "/cgroup.subtree_control", '+' + controller)) {
			why_ = parent + " has processes, so it cannot limit groups below it";
			return;
		}
		second_ = true;
		make(parent);
	}

	const pid_t maker_;
	bool second_ = false;
	std::string folder_, why_;
};

} // namespace test

#endif

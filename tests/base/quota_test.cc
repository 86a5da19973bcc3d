// SPDX-License-Identifier: MIT
//
// Which CPU quota a process has, according to made-up files of the kernel.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "support/internals.h"

namespace
{

class Quota : public testing::Test
{
protected:
	Quota()
	{
		char name[] = "/tmp/sennit-quota-XXXXXX";

		folder_ = mkdtemp(name);
	}
	~Quota() override { std::filesystem::remove_all(folder_); }

	void write(const std::string &file, const std::string &text)
	{
		const std::filesystem::path path = folder_ + "/" + file;

		std::filesystem::create_directories(path.parent_path());
		std::ofstream(path) << text;
	}
	// Mounts the group `root` at a folder of the test's.
	void mount(const std::string &root, const std::string &point,
		   const std::string &type = "cgroup2", const std::string &options = "rw")
	{
		mounts_ += "24 20 0:28 " + root + " " + folder_ + "/" + point +
			   " rw,nosuid shared:9 - " + type + " cgroup " + options + "\n";
	}
	// The quota of a process with these lines in its /proc/self/cgroup.
	long of(const std::string &cgroup)
	{
		write("mountinfo",
		      "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\nnonsense\n" +
			      mounts_);
		write("cgroup", cgroup);
		return probe_quota((folder_ + "/mountinfo").c_str(), (folder_ + "/cgroup").c_str());
	}

private:
	std::string folder_, mounts_;
};

TEST_F(Quota, OfItsGroupAndOfThoseAbove)
{
	mount("/", "fs");
	EXPECT_EQ(0, of("0::/a/b\n"));
	write("fs/a/b/cpu.max", "max 100000\n");
	EXPECT_EQ(0, of("0::/a/b\n"));
	write("fs/a/b/cpu.max", "350000 100000\n");
	EXPECT_EQ(4, of("0::/a/b\n"));
	write("fs/a/cpu.max", "200000 100000\n");
	EXPECT_EQ(2, of("0::/a/b\n"));
	write("fs/a/cpu.max", "900000 100000\n");
	EXPECT_EQ(4, of("0::/a/b\n"));
	EXPECT_EQ(0, of("0::/ab\n"));
	EXPECT_EQ(0, of("0::/\n"));
	EXPECT_EQ(0, of(""));
	EXPECT_EQ(0, of("nonsense\n"));
	write("fs/a/b/cpu.max", "1 100000\n");
	EXPECT_EQ(1, of("0::/a/b\n"));
}

// A container with a namespace of its own: groups above its own are not visible.
TEST_F(Quota, OfTheRootOfANamespace)
{
	mount("/", "fs");
	write("fs/cpu.max", "100000 100000\n");
	EXPECT_EQ(1, of("0::/\n"));
	EXPECT_EQ(1, of("0::/a\n"));
}

TEST_F(Quota, WhereverItIsMounted)
{
	mount("/", "some\\040where/else");
	write("some where/else/a/cpu.max", "300000 100000\n");
	EXPECT_EQ(3, of("0::/a\n"));
}

// A container without a namespace: the path is the host's, and the mount begins at the container's
// group.
TEST_F(Quota, WhereTheMountBeginsBelowTheRoot)
{
	mount("/docker/abc", "fs");
	write("fs/cpu.max", "400000 100000\n");
	write("fs/docker/abc/cpu.max", "100000 100000\n"); // another group
	write("fs/sub/cpu.max", "200000 100000\n");
	EXPECT_EQ(4, of("0::/docker/abc\n"));
	EXPECT_EQ(2, of("0::/docker/abc/sub\n"));
	EXPECT_EQ(4, of("0::/docker/abc/other\n"));
}

// The path leads to a group that no mount shows, so the container's limit counts.
TEST_F(Quota, OfThePathOfAnotherNamespace)
{
	mount("/docker/abc", "fs");
	write("fs/cpu.max", "400000 100000\n");
	EXPECT_EQ(4, of("0::/kubepods/pod1\n"));
	EXPECT_EQ(4, of("0::/docker/abcd\n"));
	EXPECT_EQ(4, of("0::/../other\n"));
	EXPECT_EQ(4, of("0::/..\n"));
	// Another mount shows the group.
	mount("/", "all");
	EXPECT_EQ(0, of("0::/kubepods/pod1\n"));
	write("all/kubepods/cpu.max", "600000 100000\n");
	EXPECT_EQ(6, of("0::/kubepods/pod1\n"));
}

TEST_F(Quota, AboveTheRootOfANamespace)
{
	mount("/..", "fs");
	write("fs/other/cpu.max", "200000 100000\n");
	EXPECT_EQ(2, of("0::/../other/group\n"));
}

TEST_F(Quota, OfVersionOne)
{
	mount("/", "memory", "cgroup", "rw,memory");
	mount("/docker/abc", "cpu", "cgroup", "rw,cpu,cpuacct");
	mount("/", "unified");
	write("memory/docker/abc/cpu.cfs_quota_us", "100000\n");
	write("memory/docker/abc/cpu.cfs_period_us", "100000\n");
	const std::string lines = "12:cpuset:/\n5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n"
				  "0::/docker/abc\n";

	EXPECT_EQ(0, of(lines));
	write("cpu/cpu.cfs_quota_us", "-1\n");
	EXPECT_EQ(0, of(lines));
	write("cpu/cpu.cfs_period_us", "100000\n");
	EXPECT_EQ(0, of(lines));
	write("cpu/cpu.cfs_quota_us", "250000\n");
	EXPECT_EQ(3, of(lines));
	// Both versions of cgroups at the same time.
	write("unified/docker/cpu.max", "200000 100000\n");
	EXPECT_EQ(2, of(lines));
}

TEST(QuotaFiles, MayBeMissing)
{
	EXPECT_EQ(0, probe_quota("/nonexistent", "/nonexistent"));
	EXPECT_EQ(0, probe_quota("/proc/self/mountinfo", "/nonexistent"));
	EXPECT_LE(0, probe_quota("/proc/self/mountinfo", "/proc/self/cgroup"));
}

} // namespace

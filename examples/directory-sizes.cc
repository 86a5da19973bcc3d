/* SPDX-License-Identifier: MIT */
/*
 * The sizes of the folders below a folder, largest first. Each folder is read by a task of its own,
 * so that many are read at a time. Reading blocks the thread, but the code need not care, because
 * the runtime gives the processor to other tasks.
 *
 *	example-directory-sizes /usr/share
 */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

namespace fs = std::filesystem;

namespace
{

struct walk {
	sn::scope all;                /* the tasks of all folders */
	sn::semaphore open_files{64}; /* limits the folders that are read at the same time */
	std::atomic<unsigned> unreadable = 0;

	/* Adds up a folder's files, and starts a task for each of its subfolders. */
	void visit(const fs::path &folder, const std::shared_ptr<std::atomic<std::uintmax_t>> &sum)
	{
		std::error_code error;
		std::vector<fs::path> below;

		open_files.acquire();
		for (fs::directory_iterator at(folder, error), end; !error && at != end;
		     at.increment(error)) {
			std::error_code gone; /* an entry that vanishes counts as 0 */
			if (at->is_symlink(gone))
				continue;
			if (at->is_directory(gone))
				below.push_back(at->path());
			else if (at->is_regular_file(gone))
				*sum += gone ? 0 : at->file_size(gone);
		}
		open_files.release();
		if (error)
			unreadable++;
		for (fs::path &each : below)
			all.go([this, sum, path = std::move(each)] { visit(path, sum); });
	}
};

int sizes(const fs::path &top)
{
	std::vector<std::pair<std::string, std::shared_ptr<std::atomic<std::uintmax_t>>>> entries;
	std::error_code error;
	std::uintmax_t total = 0;
	walk walk;

	for (fs::directory_iterator at(top, error), end; !error && at != end; at.increment(error)) {
		auto sum = std::make_shared<std::atomic<std::uintmax_t>>(0);
		std::error_code gone;
		if (at->is_directory(gone) && !at->is_symlink(gone))
			walk.all.go([&walk, sum, path = at->path()] { walk.visit(path, sum); });
		else if (at->is_regular_file(gone))
			*sum = at->file_size(gone);
		entries.emplace_back(at->path().filename(), sum);
	}
	if (error) {
		std::fprintf(stderr, "%s: %s\n", top.c_str(), error.message().c_str());
		return 1;
	}
	walk.all.join().value();

	std::sort(entries.begin(), entries.end(),
		  [](const auto &a, const auto &b) { return *a.second > *b.second; });
	for (const auto &[name, sum] : entries) {
		std::printf("%15ju  %s\n", *sum + std::uintmax_t{0}, name.c_str());
		total += *sum;
	}
	std::printf("%15ju  in total\n", total);
	if (walk.unreadable > 0)
		std::fprintf(stderr, "%u folders could not be read\n", walk.unreadable.load());
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	return sn::run([&] { return sizes(argc > 1 ? argv[1] : "."); });
}

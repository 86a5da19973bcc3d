/* SPDX-License-Identifier: MIT */
/*
 * The access log: its lines, and that no task waits for it, whatever happens to its target.
 */
#include "stats/access_log.hpp"

#include "harness.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <random>
#include <regex>
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace std::string_literals;
using harness::folder;
using relay::access_entry;
using relay::access_log;
using relay::log_format;

namespace
{

access_entry example()
{
	access_entry entry;
	entry.time = 1700000000s + 7ms;
	entry.cause = relay::termination::server_end;
	entry.listener = "web";
	entry.client = "192.0.2.1:4711";
	entry.backend = "[2001:db8::1]:80";
	entry.sni = "host.example";
	entry.duration = 1234567us;
	entry.connect = 250us;
	entry.first_byte = 1500us;
	entry.to_backend = 10;
	entry.to_client = 1 << 20;
	entry.to_client_splice = 1 << 19;
	return entry;
}

TEST(LogLine, HasWhatIsKnown)
{
	auto entry = example();
	EXPECT_EQ(to_log_line(entry, log_format::logfmt),
		  "time=2023-11-14T22:13:20.007Z cause=server_end listener=web "
		  "client=192.0.2.1:4711 backend=[2001:db8::1]:80 sni=host.example "
		  "duration_ms=1234.567 connect_ms=0.25 first_byte_ms=1.5 to_backend=10 "
		  "to_client=1048576 to_backend_splice=0 to_client_splice=524288\n");
	EXPECT_EQ(to_log_line(entry, log_format::json),
		  R"({"time":"2023-11-14T22:13:20.007Z","cause":"server_end","listener":"web",)"
		  R"("client":"192.0.2.1:4711","backend":"[2001:db8::1]:80","sni":"host.example",)"
		  R"("duration_ms":1234.567,"connect_ms":0.25,"first_byte_ms":1.5,"to_backend":10,)"
		  R"("to_client":1048576,"to_backend_splice":0,"to_client_splice":524288})"
		  "\n");
	access_entry least;
	least.cause = relay::termination::refused_rate;
	EXPECT_EQ(to_log_line(least, log_format::logfmt),
		  "time=1970-01-01T00:00:00.000Z cause=refused_rate to_backend=0 to_client=0 "
		  "to_backend_splice=0 to_client_splice=0\n");
	least.tries = 3;
	least.error = "connection refused";
	least.peer = "10.0.0.1:2";
	const auto text = to_log_line(least, log_format::logfmt);
	EXPECT_NE(text.find(" peer=10.0.0.1:2 "), text.npos);
	EXPECT_NE(text.find(" tries=3 error=\"connection refused\"\n"), text.npos);
}

TEST(LogLine, CannotBeBrokenAndIsBounded)
{
	for (const auto &format : {log_format::logfmt, log_format::json})
		for (const auto &evil :
		     {"a\nb"s, "a\" cause=cut"s, "\\"s, std::string(100000, '\x01'),
		      std::string(100000, 'x'), std::string(100000, '\xff'), "\0"s}) {
			access_entry entry = example();
			entry.listener = entry.client = entry.peer = entry.backend = entry.sni =
				entry.error = evil;
			entry.to_backend = entry.to_client = entry.to_backend_splice =
				entry.to_client_splice = ~0ULL;
			entry.duration = entry.connect = entry.first_byte =
				std::chrono::nanoseconds::max();
			const auto text = to_log_line(entry, format);
			EXPECT_LE(text.size(), relay::log_line_most);
			EXPECT_EQ(text.find('\n'), text.size() - 1);
			for (const char c : text.substr(0, text.size() - 1))
				EXPECT_TRUE(static_cast<unsigned char>(c) >= ' ');
			/* Quotes come in pairs. */
			const auto plain = std::regex_replace(text, std::regex(R"(\\.)"), "");
			EXPECT_EQ(std::count(plain.begin(), plain.end(), '"') % 2, 0);
		}
}

log_format own(const std::string &text)
{
	std::string why;
	auto parsed = log_format::parse(text, why);
	EXPECT_TRUE(parsed) << text << ' ' << why;
	return parsed.value_or(log_format::logfmt);
}

TEST(OwnLogLine, HasTheFieldsInTheirPlaces)
{
	auto entry = example();
	EXPECT_EQ(
		to_log_line(entry, own("{client} - [{time}] {{{cause}}}\t\"{sni}\" {duration_ms}ms "
				       "{to_client} {sni}: {peer}|{tries}|{queue_ms}")),
		"192.0.2.1:4711 - [2023-11-14T22:13:20.007Z] {server_end}\t\"host.example\" "
		"1234.567ms 1048576 host.example: -|0|-\n");
	entry.tries = 3;
	entry.datagrams = {5, 7};
	EXPECT_EQ(to_log_line(entry, own("{tries}{{{datagrams_to_client}")), "3{7\n");
	EXPECT_EQ(to_log_line(entry, own("{cause}0{time}_{to_backend}x")),
		  "server_end02023-11-14T22:13:20.007Z_10x\n")
		<< "their values do not have these";
}

TEST(OwnLogLine, RefusesAfterAFieldWhatItsValuesHave)
{
	const auto refuses = [](const std::string &field, std::string_view all) {
		for (const char c : all) {
			std::string why;
			EXPECT_FALSE(log_format::parse("{" + field + "}" + c, why)) << field << c;
			EXPECT_NE(why.find("directly after a field"), why.npos) << why;
		}
	};
	refuses("to_backend", "0189.-\\");
	refuses("duration_ms", "0189.-\\");
	refuses("tries", "0189.-\\");
	refuses("time", "0189TZ:.-\\");
	refuses("cause", "azAZ_-\\");
	refuses("sni", "09azAZ-\\");
}

/* Reads a value as the manual says, up to the character that follows it in the format. */
std::string read_value(std::string_view line, char stop, std::string_view &rest)
{
	const auto end = line.find(stop);
	EXPECT_NE(end, line.npos);
	const auto value = line.substr(0, end);
	rest = line.substr(end + 1);
	if (value == "-")
		return "";
	std::string made;
	for (std::size_t at = 0; at < value.size(); at++) {
		if (value[at] != '\\') {
			made += value[at];
			continue;
		}
		EXPECT_EQ(value.substr(at, 2), "\\x");
		made += static_cast<char>(
			std::stoi(std::string(value.substr(at + 2, 2)), nullptr, 16));
		at += 3;
	}
	return made;
}

TEST(OwnLogLine, CannotBeForged)
{
	const auto format = own("{client} {error}|{client_cn}\" \"{sni}#{alpn}");
	std::minstd_rand random(7);
	const auto any = [&] {
		std::string made;
		for (std::size_t n = random() % 8; n > 0; n--)
			made += " |\"x-\\\n\0\x7f\xff\t#7"[random() % 13];
		return made;
	};
	for (int i = 0; i < 20000; i++) {
		access_entry entry;
		const std::string client = any(), error = any(), cn = any(), sni = any(),
				  alpn = any();
		entry.client = client;
		entry.error = error;
		entry.client_cn = cn;
		entry.sni = sni;
		entry.alpn = alpn;
		const auto text = to_log_line(entry, format);
		ASSERT_TRUE(std::ranges::all_of(text.substr(0, text.size() - 1),
						[](char c) { return c >= ' ' && c <= '~'; }));
		ASSERT_FALSE(text.starts_with('#')) << text;
		std::string_view rest = text;
		ASSERT_EQ(read_value(rest, ' ', rest), client) << text;
		ASSERT_EQ(read_value(rest, '|', rest), error) << text;
		ASSERT_EQ(read_value(rest, '"', rest), cn) << text;
		ASSERT_TRUE(rest.starts_with(" \"")) << text;
		rest.remove_prefix(2);
		ASSERT_EQ(read_value(rest, '#', rest), sni) << text;
		ASSERT_EQ(read_value(rest, '\n', rest), alpn) << text;
		ASSERT_EQ(rest, "");
	}
}

TEST(OwnLogLine, IsBounded)
{
	std::string largest;
	while (largest.size() < 1024 - 12)
		largest += largest.size() < 12 * 63 ? "{client_cn} " : "x";
	const std::string evil(100000, '\xff');
	access_entry entry;
	entry.client_cn = evil;
	for (const auto &format :
	     {largest, "{client_cn}"s, "{client_cn} {client_cn} {client_cn}"s}) {
		const auto text = to_log_line(entry, own(format));
		EXPECT_LE(text.size(), relay::log_line_most);
		EXPECT_GE(text.size(), relay::log_line_most / 8);
		EXPECT_EQ(text.find('\n'), text.size() - 1);
	}
	std::string why;
	EXPECT_FALSE(log_format::parse("{time}" + std::string(1019, 'x'), why));
	EXPECT_EQ(why, "is too long; expected at most 1024 bytes");
	std::string many;
	for (int i = 0; i < 65; i++)
		many += "{sni} ";
	EXPECT_FALSE(log_format::parse(many, why));
	EXPECT_EQ(why, "has too many fields; expected at most 64");
}

TEST(OwnLogLine, OfDroppedLinesIsMarked)
{
	access_entry entry;
	entry.client_cn = "# time=now event=lines_dropped lines=7";
	EXPECT_EQ(to_log_line(entry, own("{client_cn}")),
		  "\\x23 time=now event=lines_dropped lines=7\n");
	const auto text = relay::dropped_line(7, own("{client}"));
	EXPECT_TRUE(text.starts_with("# time=")) << text;
	EXPECT_TRUE(text.ends_with(" event=lines_dropped lines=7\n")) << text;
}

std::vector<std::string> lines_of(const std::string &path)
{
	std::vector<std::string> lines;
	std::ifstream file(path);
	for (std::string line; std::getline(file, line);)
		lines.push_back(line);
	return lines;
}

std::unique_ptr<access_log> opened(const std::string &target, std::size_t queue = 4096)
{
	std::string why;
	auto log = access_log::open(target, log_format::logfmt, why, queue);
	EXPECT_TRUE(log) << why;
	return log;
}

/* Waits until the file has `n` lines. */
bool has_lines(const std::string &path, std::size_t n)
{
	const auto until = sn::after(harness::patience);
	while (lines_of(path).size() < n) {
		if (sn::now() > until)
			return false;
		sn::sleep(2ms);
	}
	return lines_of(path).size() == n;
}

TEST(AccessLog, WritesEveryLineOfManyTasks)
{
	const folder in;
	static constexpr int tasks = 20;
	static constexpr int each = 200;
	std::uint64_t dropped = 1;
	sn::run([&] {
		auto log = opened(in / "log", tasks * each);
		log->start();
		std::vector<sn::task<void>> all;
		for (int t = 0; t < tasks; t++)
			all.push_back(sn::spawn([&log, t] {
				const auto name = std::to_string(t);
				access_entry entry = example();
				entry.listener = name;
				for (int i = 0; i < each; i++) {
					entry.to_backend = static_cast<std::uint64_t>(i);
					log->write(entry);
					sn::yield();
				}
			}));
		for (auto &task : all)
			task.join();
		log->close();
		dropped = log->dropped();
	});
	EXPECT_EQ(dropped, 0U);
	const auto lines = lines_of(in / "log");
	ASSERT_EQ(lines.size(), std::size_t{tasks} * each);
	/* The lines of each task are in order. */
	int next[tasks] = {};
	const std::regex pattern(R"(time=.* listener=(\d+) .* to_backend=(\d+) .*)");
	for (const auto &line : lines) {
		std::smatch match;
		ASSERT_TRUE(std::regex_match(line, match, pattern)) << line;
		ASSERT_EQ(std::stoi(match[2]), next[std::stoi(match[1])]++);
	}
	/* Other users cannot read the file, because it has the clients' addresses. */
	EXPECT_EQ(std::filesystem::status(in / "log").permissions() &
			  std::filesystem::perms::others_all,
		  std::filesystem::perms::none);
}

TEST(AccessLog, ContinuesInANewFileAfterTheOldOneIsRenamed)
{
	const folder in;
	sn::run([&] {
		auto log = opened(in / "log");
		log->start();
		log->write(example());
		ASSERT_TRUE(has_lines(in / "log", 1));
		std::filesystem::rename(in / "log", in / "log.1");
		log->write(example());
		ASSERT_TRUE(has_lines(in / "log.1", 2));
		/* reopen() creates the file immediately, before the next line is written. */
		log->reopen();
		const auto until = sn::after(harness::patience);
		while (!std::filesystem::exists(in / "log") && sn::now() < until)
			sn::sleep(2ms);
		log->write(example());
		ASSERT_TRUE(has_lines(in / "log", 1));
		EXPECT_EQ(lines_of(in / "log.1").size(), 2U);

		/* The new file cannot be opened, so the old one stays in use. */
		std::filesystem::rename(in / "log", in / "log.2");
		std::filesystem::create_directory(in / "log");
		log->reopen();
		log->write(example());
		EXPECT_TRUE(has_lines(in / "log.2", 2));
		log->close();
		EXPECT_EQ(log->dropped(), 0U);
	});
}

TEST(AccessLog, DropsLinesForASlowReaderAndReportsHowMany)
{
	int ends[2];
	ASSERT_EQ(pipe(ends), 0);
	const auto size = fcntl(ends[1], F_SETPIPE_SZ, 4096);
	ASSERT_GT(size, 0);
	sn::run([&] {
		auto log = opened("fd:" + std::to_string(ends[1]), 10);
		log->start();
		/* There is no reader, so only what fits into the pipe, the queue and the task is
		 * kept. */
		const auto start = sn::now();
		for (int i = 0; i < 1000; i++) {
			log->write(example());
			if (i % 10 == 0)
				sn::yield();
		}
		EXPECT_LT(sn::now() - start, harness::patience);
		EXPECT_GT(log->dropped(), 800U);

		/* Now a thread reads. */
		std::string text;
		std::jthread reader([&text, &ends] {
			char buf[4096];
			for (ssize_t n; (n = read(ends[0], buf, sizeof buf)) > 0;)
				text.append(buf, static_cast<std::size_t>(n));
		});
		/* Writes until a line gets through. */
		std::uint64_t written = 1000;
		for (const auto until = sn::after(harness::patience); sn::now() < until;) {
			const auto dropped = log->dropped();
			log->write(example());
			written++;
			if (log->dropped() == dropped)
				break;
			sn::sleep(1ms);
		}
		log->close();
		const auto dropped = log->dropped();
		::close(ends[1]);
		reader.join();
		std::istringstream stream(text);
		std::uint64_t lines = 0;
		std::uint64_t reported = 0;
		for (std::string line; std::getline(stream, line);) {
			std::smatch match;
			if (std::regex_match(
				    line, match,
				    std::regex("time=.* event=lines_dropped lines=(\\d+)")))
				reported += std::stoul(match[1]);
			else
				lines++;
		}
		/* Each line was written or is counted as dropped. */
		EXPECT_EQ(lines + reported, written);
		EXPECT_EQ(reported, dropped);
	});
	close(ends[0]);
}

/* A reader that pauses, such as a container's log driver, causes no gaps. */
TEST(AccessLog, KeepsLinesInTheQueueWhileThePipeIsFull)
{
	constexpr int lines = 400;
	int ends[2];
	ASSERT_EQ(pipe(ends), 0);
	ASSERT_GT(fcntl(ends[1], F_SETPIPE_SZ, 4096), 0);
	ASSERT_EQ(write(ends[1], std::string(4096, '#').data(), 4096), 4096);
	sn::run([&] {
		auto log = opened("fd:" + std::to_string(ends[1]));
		log->start();
		for (int i = 0; i < lines; i++) {
			log->write(example());
			/* Takes so long that the log tries to write in between. */
			if (i % 100 == 0)
				sn::sleep(50ms);
		}
		EXPECT_EQ(log->dropped(), 0U);
		std::string text;
		std::jthread reader([&text, &ends] {
			char buf[4096];
			for (ssize_t n; (n = read(ends[0], buf, sizeof buf)) > 0;)
				text.append(buf, static_cast<std::size_t>(n));
		});
		log->close(); /* writes the lines in the queue */
		EXPECT_EQ(log->dropped(), 0U);
		::close(ends[1]);
		reader.join();
		EXPECT_EQ(std::ranges::count(text, '\n'), lines);
	});
	close(ends[0]);
}

TEST(AccessLog, ClosesEvenIfNothingReads)
{
	int ends[2];
	ASSERT_EQ(pipe(ends), 0);
	sn::run([&] {
		auto log = opened("fd:" + std::to_string(ends[1]));
		log->start();
		for (int i = 0; i < 4000; i++)
			log->write(example());
		const auto start = sn::now();
		log->close();
		EXPECT_LT(sn::now() - start, harness::patience);
		EXPECT_GT(log->dropped(), 3000U);
	});
	close(ends[0]);
	close(ends[1]);
}

/* A reload may replace the log, and be cancelled while it waits for the lines of the old one. Then
 * the new one is in use. */
TEST(CurrentLog, IsReplacedAlsoByATaskThatIsCancelled)
{
	int ends[2];
	ASSERT_EQ(pipe(ends), 0);
	sn::run([&] {
		std::shared_ptr<access_log> given = opened("fd:" + std::to_string(ends[1]));
		access_log *const old = given.get();
		std::shared_ptr<access_log> next = opened("/dev/null");
		access_log *const other = next.get();
		relay::current_log log;
		old->start();
		next->start();
		EXPECT_TRUE(log.exchange(std::move(given)));
		for (int i = 0; i < 4000; i++)
			old->write(example());
		bool has_thrown = false, is_closed = true;
		sn::scope scope;
		scope.go([&] {
			try {
				is_closed = log.exchange(std::move(next));
			} catch (const std::exception &) {
				has_thrown = true;
			}
		});
		scope.cancel();
		static_cast<void>(scope.join());
		EXPECT_FALSE(has_thrown);
		EXPECT_FALSE(is_closed);
		EXPECT_EQ(log.get().get(), other);
		/* Its task continues, and still has the lines. */
		EXPECT_TRUE(old->close());
		EXPECT_FALSE(log.exchange(nullptr));
	});
	close(ends[0]);
	close(ends[1]);
}

/* A reader that always has room soon, but not for all lines in the time that closing has. */
TEST(AccessLog, CountsWhatASlowReaderDoesNotGetWhenItCloses)
{
	constexpr int written = 4000;
	int ends[2];
	ASSERT_EQ(pipe(ends), 0);
	ASSERT_GT(fcntl(ends[1], F_SETPIPE_SZ, 4096), 0);
	std::string text;
	std::thread reader([&text, &ends] {
		char buf[4096];
		for (ssize_t n; (n = read(ends[0], buf, sizeof buf)) > 0;) {
			text.append(buf, static_cast<std::size_t>(n));
			std::this_thread::sleep_for(20ms);
		}
	});
	sn::run([&] {
		auto log = opened("fd:" + std::to_string(ends[1]));
		log->start();
		for (int i = 0; i < written; i++)
			log->write(example());
		EXPECT_TRUE(log->close()) << "it still writes";
		::close(ends[1]);
		reader.join();
		std::uint64_t lines = 0;
		std::istringstream stream(text);
		for (std::string line; std::getline(stream, line);)
			lines += line.find("event=lines_dropped") == line.npos ? 1 : 0;
		EXPECT_EQ(lines + log->dropped(), written);
	});
	::close(ends[0]);
}

TEST(AccessLog, DropsLinesWhenTheReaderHasGone)
{
	int ends[2];
	ASSERT_EQ(pipe(ends), 0);
	close(ends[0]);
	std::signal(SIGPIPE, SIG_IGN);
	sn::run([&] {
		auto log = opened("fd:" + std::to_string(ends[1]));
		log->start();
		for (int i = 0; i < 100; i++)
			log->write(example());
		log->close();
		EXPECT_EQ(log->dropped(), 100U);
	});
	close(ends[1]);
}

/* The file cannot grow at first, and can later. */
TEST(AccessLog, RecoversAfterTheDiskWasFull)
{
	const folder in;
	std::signal(SIGXFSZ, SIG_IGN);
	struct rlimit former {
	};
	ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &former), 0);
	sn::run([&] {
		auto log = opened(in / "log");
		log->start();
		struct rlimit less = former;
		less.rlim_cur = 0;
		ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &less), 0);
		log->write(example());
		const auto until = sn::after(harness::patience);
		while (log->dropped() == 0 && sn::now() < until)
			sn::sleep(1ms);
		EXPECT_EQ(log->dropped(), 1U);
		ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &former), 0);
		log->write(example());
		log->close();
		EXPECT_EQ(log->dropped(), 1U);
		const auto lines = lines_of(in / "log");
		ASSERT_EQ(lines.size(), 2U);
		EXPECT_NE(lines[0].find("event=lines_dropped lines=1"), lines[0].npos);
	});
}

TEST(AccessLog, SaysWhatIsWrongWithItsTarget)
{
	std::string why;
	for (const auto &target : {"fd:"s, "fd:x"s, "fd:-1"s, "fd:99999"s, "fd:1x"s, "syslog:"s,
				   "syslog:log"s, "syslog:/" + std::string(107, 'x')}) {
		EXPECT_FALSE(access_log::open(target, log_format::logfmt, why)) << target;
		EXPECT_NE(why.find('"' + target + '"'), why.npos) << why;
	}
	EXPECT_FALSE(access_log::open("/nonexistent/folder/log", log_format::logfmt, why));
	EXPECT_NE(why.find("/nonexistent/folder/log: No such file"), why.npos) << why;
	const int read_only = open("/dev/null", O_RDONLY);
	EXPECT_FALSE(access_log::open("fd:" + std::to_string(read_only), log_format::json, why));
	close(read_only);
}

} // namespace

/* SPDX-License-Identifier: MIT */
/* Labels: long core */
/*
 * Events: in each format an event is one record that foreign text cannot break, floods are limited
 * and counted, and each target gets the right format. Then the relay's own events, from a real
 * process.
 */
#include "stats/events.hpp"

#include "harness.hpp"

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <poll.h>
#include <regex>
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <set>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace harness;
using namespace std::string_literals;
using namespace std::string_view_literals;
using relay::event_kind;

namespace
{

constexpr auto hostile = "a \"b\" ]\\\n\x01\xff=c"sv;

relay::event example()
{
	return {.time = 1700000000123ms,
		.kind = event_kind::backend_down,
		.message = std::string(hostile),
		.fields = {{"group", "web"}, {"backend", hostile}, {"unknown", ""}, {"n", 7U}},
		.suppressed = 3};
}

TEST(Event, IsALineOfText)
{
	EXPECT_EQ(to_text(example()),
		  "2023-11-14T22:13:20.123Z warning backend_down group=web "
		  "backend=\"a \\\"b\\\" ]\\\\\\u000a\\u0001\xef\xbf\xbd=c\" n=7 suppressed=3 "
		  "message=\"a \\\"b\\\" ]\\\\\\u000a\\u0001\xef\xbf\xbd=c\"\n");
	EXPECT_TRUE(to_prefixed_text(example()).starts_with("<4>warning backend_down group=web "));
}

TEST(Event, IsALineOfJson)
{
	EXPECT_EQ(to_json(example()),
		  "{\"time\":\"2023-11-14T22:13:20.123Z\",\"level\":\"warning\","
		  "\"event\":\"backend_down\",\"group\":\"web\","
		  "\"backend\":\"a \\\"b\\\" ]\\\\\\u000a\\u0001\xef\xbf\xbd=c\",\"n\":7,"
		  "\"suppressed\":3,"
		  "\"message\":\"a \\\"b\\\" ]\\\\\\u000a\\u0001\xef\xbf\xbd=c\"}\n");
}

TEST(Event, IsARecordOfSyslog)
{
	EXPECT_EQ(to_syslog(example(), "host", 4711),
		  "<28>1 2023-11-14T22:13:20.123Z host sennit-relay 4711 backend_down "
		  "[sennit@32473 group=\"web\" "
		  "backend=\"a \\\"b\\\" \\]\\\\\\u000a\\u0001\xef\xbf\xbd=c\" n=\"7\" "
		  "suppressed=\"3\"] a \"b\" ]\\??\xef\xbf\xbd=c");
	relay::event bare = example();
	bare.fields.clear();
	bare.suppressed = 0;
	EXPECT_NE(to_syslog(bare, "", 1).find("Z - sennit-relay 1 backend_down - a "),
		  std::string::npos);
	setenv("TZ", "UTC", 1);
	tzset();
	EXPECT_TRUE(to_local_syslog(example(), 4711)
			    .starts_with("<28>Nov 14 22:13:20 sennit-relay[4711]: warning "
					 "backend_down group=web "));
}

TEST(Event, IsADatagramOfTheJournal)
{
	EXPECT_EQ(to_journal(example()), "SYSLOG_IDENTIFIER=sennit-relay\nPRIORITY=4\n"
					 "SENNIT_EVENT=backend_down\nSENNIT_GROUP=web\n"
					 "SENNIT_BACKEND=a \"b\" ]\\??\xef\xbf\xbd=c\nSENNIT_N=7\n"
					 "SENNIT_SUPPRESSED=3\n"
					 "MESSAGE=a \"b\" ]\\??\xef\xbf\xbd=c\n");
}

/* Terminals may take U+009B for the beginning of an escape sequence. */
TEST(Event, HasNoControlCharacters)
{
	auto odd = example();
	odd.fields.clear();
	odd.message = "a\xc2\x80\xc2\x9b\xc2\x9f\x7f\xc2\xa0\xc3\x9b\x1b";
	odd.fields.emplace_back("group", odd.message);
	const std::string escaped = "a\\u0080\\u009b\\u009f\\u007f\xc2\xa0\xc3\x9b\\u001b";
	const std::string replaced = "a????\xc2\xa0\xc3\x9b?";
	for (const auto &record :
	     {to_text(odd), to_json(odd), to_prefixed_text(odd), to_local_syslog(odd, 1)})
		EXPECT_EQ(count_of('"' + escaped + '"', record), 2U) << record;
	const auto syslog = to_syslog(odd, "h\xc2\x9bst", 1);
	EXPECT_NE(syslog.find(" h?st "), syslog.npos) << syslog;
	EXPECT_NE(syslog.find(" group=\"" + escaped + "\""), syslog.npos) << syslog;
	EXPECT_TRUE(syslog.ends_with("] " + replaced)) << syslog;
	EXPECT_EQ(count_of('=' + replaced + '\n', to_journal(odd)), 2U) << to_journal(odd);
}

TEST(Event, HasABound)
{
	auto large = example();
	large.message = std::string(100000, '\x01');
	large.fields.clear();
	for (int i = 0; i < 5; i++)
		large.fields.emplace_back("field", std::string(100000, i % 2 ? '\x01' : ']'));
	for (const auto &record :
	     {to_text(large), to_json(large), to_syslog(large, "host", 1),
	      to_local_syslog(large, 1), to_journal(large), to_prefixed_text(large)})
		EXPECT_LE(record.size(), relay::event_most);
	/* A multibyte character is not split. */
	large.message = "x";
	while (large.message.size() < 5000)
		large.message += "\xc3\xa4";
	EXPECT_EQ(to_text(large).find("\xef\xbf\xbd"), std::string::npos);
}

TEST(Event, EachKindIsInTheManual)
{
	std::ifstream file(RELAY_SOURCE_DIR "/docs/relay-operation.md");
	const std::string manual{std::istreambuf_iterator<char>(file),
				 std::istreambuf_iterator<char>()};
	std::set<std::string> names;
	for (std::size_t i = 0; i < static_cast<std::size_t>(event_kind::count_); i++) {
		const auto &about = relay::describe(static_cast<event_kind>(i));
		ASSERT_NE(about.name, nullptr);
		EXPECT_TRUE(names.insert(about.name).second) << about.name;
		EXPECT_NE(manual.find("| `"s + about.name + "` | " + to_string(about.level) + " |"),
			  manual.npos)
			<< about.name;
	}
}

TEST(EventTarget, IsOneOfFew)
{
	for (const auto *good : {"stderr", "json", "syslog", "syslog:/run/log", "journal"})
		EXPECT_FALSE(relay::event_target_problem(good)) << good;
	for (const auto &bad : {"", "stdout", "syslog:", "syslog:log", "syslogd", "JSON"})
		EXPECT_TRUE(relay::event_target_problem(bad)) << bad;
	EXPECT_TRUE(relay::event_target_problem("syslog:/" + std::string(107, 'x')));
	EXPECT_FALSE(relay::event_target_problem("syslog:/" + std::string(106, 'x')));
}

/* A daemon that reads datagrams. */
class daemon
{
public:
	explicit daemon(const std::string &path) : fd_(socket(AF_UNIX, SOCK_DGRAM, 0))
	{
		sockaddr_un at{};
		at.sun_family = AF_UNIX;
		std::strcpy(at.sun_path, path.c_str());
		EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr *>(&at), sizeof at), 0);
	}
	daemon(const daemon &) = delete;
	daemon &operator=(const daemon &) = delete;
	~daemon() { close(fd_); }

	/* Returns an empty string if no datagram comes for that long. */
	std::string receive(std::chrono::milliseconds time = patience)
	{
		pollfd in{fd_, POLLIN, 0};
		if (poll(&in, 1, static_cast<int>(time.count())) <= 0)
			return "";
		char text[65536];
		const auto n = recv(fd_, text, sizeof text, 0);
		return n < 0 ? "" : std::string(text, static_cast<std::size_t>(n));
	}

private:
	const int fd_;
};

/* Replaces stderr of this process by a pipe. */
class captured_stderr
{
public:
	captured_stderr() : old_(dup(STDERR_FILENO))
	{
		EXPECT_EQ(pipe2(pipe_, O_CLOEXEC | O_NONBLOCK), 0);
		dup2(pipe_[1], STDERR_FILENO);
	}
	captured_stderr(const captured_stderr &) = delete;
	captured_stderr &operator=(const captured_stderr &) = delete;
	~captured_stderr()
	{
		dup2(old_, STDERR_FILENO);
		for (const int fd : {old_, pipe_[0], pipe_[1]})
			close(fd);
	}

	/* Makes the pipe as small as possible, so that writes soon block. */
	void make_small()
	{
		EXPECT_GT(fcntl(pipe_[1], F_SETPIPE_SZ, 1), 0);
		EXPECT_EQ(fcntl(pipe_[1], F_SETFL, 0), 0);
	}

	std::string read()
	{
		std::string all;
		char text[65536];
		for (ssize_t n; (n = ::read(pipe_[0], text, sizeof text)) > 0;)
			all.append(text, static_cast<std::size_t>(n));
		return all;
	}

	/* "DEVICE:INODE", as in the variable JOURNAL_STREAM. */
	std::string name() const
	{
		struct stat of {
		};
		fstat(pipe_[1], &of);
		return std::to_string(of.st_dev) + ':' + std::to_string(of.st_ino);
	}

private:
	const int old_;
	int pipe_[2] = {-1, -1};
};

std::size_t lines(const std::string &text)
{
	return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(Events, AreLimitedByKindAndCounted)
{
	captured_stderr out;
	relay::send_events_to("stderr");
	const auto before = relay::suppressed_events();
	const auto limit = relay::describe(event_kind::connect_failed).limit;
	ASSERT_GT(limit.burst, 0U);
	constexpr std::size_t many = 500;
	for (std::size_t i = 0; i < many; i++)
		relay::emit(event_kind::connect_failed, "x");
	const auto written = lines(out.read());
	EXPECT_GE(written, limit.burst);
	EXPECT_LT(written, many);
	EXPECT_EQ(relay::suppressed_events() - before, many - written);
	/* Other kinds are not affected; kinds without a limit are never suppressed. */
	relay::emit(event_kind::no_backend, "y");
	for (std::size_t i = 0; i < many; i++)
		relay::emit(event_kind::config_error, "z");
	EXPECT_EQ(lines(out.read()), many + 1);
	/* The number follows as soon as an event of that kind may be sent again. */
	std::string told;
	EXPECT_TRUE(eventually([&] {
		relay::flush_suppressed();
		told += out.read();
		return !told.empty();
	}));
	EXPECT_NE(told.find(" notice events_suppressed of=connect_failed events=" +
			    std::to_string(many - written) + ' '),
		  told.npos)
		<< told;
}

TEST(Events, ThatCannotBeWrittenAreReportedLater)
{
	captured_stderr out;
	relay::send_events_to("json");
	const auto before = relay::lost_events();
	std::uint64_t lost = 0;
	for (int i = 0; lost < 3 && i < 100000; i++) {
		relay::emit(event_kind::config_error, std::string(1000, 'x'));
		lost = relay::lost_events() - before;
	}
	EXPECT_EQ(lost, 3U) << "a pipe that nobody reads";
	out.read();
	relay::emit(event_kind::config_error, "again");
	const auto said = out.read();
	EXPECT_NE(said.find("\"event\":\"events_lost\",\"events\":3,"), said.npos) << said;
	relay::emit(event_kind::config_error, "again");
	EXPECT_EQ(lines(out.read()), 1U);
}

/* This holds even if several tasks have seen that the pipe has room for one event. */
TEST(Events, DoNotWaitForAReader)
{
	captured_stderr out;
	out.make_small();
	relay::send_events_to("stderr");
	relay::event_fields large;
	for (const char *key : {"a", "b", "c", "d", "e"})
		large.emplace_back(key, std::string(400, 'x'));
	constexpr int writers = 4;
	for (int round = 0; round < 30; round++) {
		std::atomic<int> done{0};
		std::barrier start(writers);
		std::vector<std::jthread> all;
		for (int i = 0; i < writers; i++)
			all.emplace_back([&] {
				start.arrive_and_wait();
				relay::emit(event_kind::config_error, std::string(1000, 'x'),
					    large);
				done++;
			});
		const bool returned = eventually([&] { return done == writers; });
		while (done < writers)
			out.read();
		ASSERT_TRUE(returned) << "in round " << round;
		out.read();
	}
}

TEST(Events, GoToSyslogAndToStderrWithoutIt)
{
	const folder in;
	const auto path = in / "log";
	captured_stderr out;
	relay::send_events_to("syslog:" + path);
	relay::emit(event_kind::config_error, "nobody is there");
	EXPECT_NE(out.read().find(" error config_error message=\"nobody is there\"\n"),
		  std::string::npos);
	for (int restarts = 0; restarts < 2; restarts++) {
		daemon syslog(path);
		relay::emit(event_kind::config_error, "hello", {{"file", "x"}});
		EXPECT_TRUE(std::regex_match(
			syslog.receive(),
			std::regex("<27>1 [-0-9T:.]+Z \\S+ sennit-relay " +
				   std::to_string(getpid()) +
				   " config_error \\[sennit@32473 file=\"x\"\\] hello")));
		unlink(path.c_str());
	}
	EXPECT_EQ(out.read(), "");
}

TEST(Events, HavePrioritiesWhereStderrIsTheJournal)
{
	captured_stderr out;
	setenv("JOURNAL_STREAM", out.name().c_str(), 1);
	relay::send_events_to("stderr");
	unsetenv("JOURNAL_STREAM");
	if (access("/run/systemd/journal/socket", F_OK) == 0)
		GTEST_SKIP() << "the events would go to this machine's journal";
	relay::emit(event_kind::config_error, "hello");
	EXPECT_EQ(out.read(), "<3>error config_error message=hello\n");
	setenv("JOURNAL_STREAM", "1:1", 1);
	relay::send_events_to("stderr");
	unsetenv("JOURNAL_STREAM");
	relay::emit(event_kind::config_error, "hello");
	EXPECT_TRUE(out.read().ends_with("Z error config_error message=hello\n"));
}

TEST(Events, MayComeFromManyTasks)
{
	captured_stderr out;
	relay::send_events_to("stderr");
	sn::run([] {
		std::vector<sn::task<void>> all;
		for (int i = 0; i < 20; i++)
			all.push_back(sn::spawn([] {
				for (int n = 0; n < 20; n++)
					relay::emit(event_kind::config_error, "from a task");
			}));
		for (auto &each : all)
			each.join();
	});
	const auto said = out.read();
	EXPECT_EQ(lines(said), 400U);
	EXPECT_TRUE(std::regex_match(
		said.substr(0, said.find('\n')),
		std::regex("[-0-9T:.]+Z error config_error message=\"from a task\"")));
}

std::string group(const std::string &address, const std::string &keys)
{
	return "drain = 0\n[listeners.web]\naddress = '127.0.0.1:0'\ngroup = 'g'\n" + keys +
	       "[groups.g]\neject_after = 2\neject_for = '1h'\nbackends = ['" + address + "']\n";
}

TEST(EventsOfTheRelay, TellOfABackendThatRefusesAndReturns)
{
	listener backend("127.0.0.1", -1);
	configured_relay relay(group(backend.address(), ""));
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	const auto at = " group=g backend=" + backend.address() + ' ';
	relay.await_error(" warning connect_failed" + at + "listener=web error=\"Connection ref");
	relay.await_error(" error no_backend listener=web group=g ");
	relay.await_error(" warning backend_ejected" + at);
	backend.listen();
	auto client = peer::connect(relay.address());
	auto served = backend.accept();
	relay.await_error(" notice backend_returned" + at);
	EXPECT_EQ(relay.errors().find("backend_returned" + at),
		  relay.errors().rfind("backend_returned" + at));
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(EventsOfTheRelay, TellOfLimits)
{
	listener backend;
	configured_relay relay(group(backend.address(), "max_connections = 1\n"));
	auto first = peer::connect(relay.address());
	auto served = backend.accept();
	EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	relay.await_error(" warning limit_reached listener=web limit=max_connections message=");
	EXPECT_FALSE(relay.reload("listeners = 1\n"));
	relay.await_error(" error config_error message=");
	const auto end = relay.stop();
	EXPECT_EQ(end.status, 0);
	EXPECT_NE(end.errors.find(" notice draining connections=1 drain_ms=0 "), end.errors.npos)
		<< end.errors;
	EXPECT_NE(end.errors.find(" warning cutting connections=1 "), end.errors.npos);
}

TEST(EventsOfTheRelay, WarnOfAnAdminServerForEverybody)
{
	listener backend;
	const auto rest = group(backend.address(), "");
	configured_relay relay("admin = ':0'\nadmin_hosts = ['relay.test']\n" + rest);
	relay.await_error(" warning admin_exposed address=");
	const auto port = relay.admin_address().substr(relay.admin_address().rfind(':'));
	const auto status = [&](const std::string &host) {
		auto admin = peer::sending("GET /json HTTP/1.1\r\nHost: " + host +
						   "\r\nConnection: close\r\n\r\n",
					   "127.0.0.1" + port);
		return admin.receive_rest().first.substr(9, 3);
	};
	EXPECT_EQ(status("relay.test" + port), "200");
	EXPECT_EQ(status("evil.test"), "421");
	relay.await_error(" warning admin_refused host=evil.test ");
	/* A reload changes the host names of a server that keeps running. */
	EXPECT_TRUE(relay.reload("admin = ':0'\nadmin_hosts = ['evil.test']\n" + rest));
	EXPECT_EQ(status("evil.test"), "200");
	EXPECT_EQ(status("relay.test"), "421");
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(EventsOfTheRelay, AreJsonIfAskedForAlsoAfterAReload)
{
	listener backend;
	const auto text = group(backend.address(), "");
	file config("events = 'json'\n" + text);
	relay_process relay({"--config", config.name()});
	relay.await_error(",\"level\":\"info\",\"event\":\"serving\",\"version\":\"");
	config.write("events = 'stderr'\n" + text);
	relay.signal(SIGHUP);
	relay.await_error("Z notice reloaded file=" + config.name() + ' ');
	EXPECT_EQ(relay.stop().status, 0);

	relay_process wrong({"--events", "nowhere", "127.0.0.1:0", backend.address()});
	const auto end = wrong.wait();
	EXPECT_EQ(end.status, 2);
	EXPECT_NE(end.errors.find("--events: \"nowhere\" is none of the choices; expected"),
		  end.errors.npos)
		<< end.errors;
}

} // namespace

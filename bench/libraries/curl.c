/* SPDX-License-Identifier: MIT */
/* libcurl: WHERE is a URL. The asynchronous interface is curl_multi_socket_action(). */
#include <curl/curl.h>

#include "loop.h"
#include "ways.h"

static size_t drop(char *bytes, size_t size, size_t n, void *to)
{
	(void)bytes;
	*(size_t *)to += size * n;
	return size * n;
}

static size_t received[MOST];

static CURL *handle_of(const struct ways *ways, int i)
{
	CURL *curl = curl_easy_init();

	curl_easy_setopt(curl, CURLOPT_URL, ways->where);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, &received[i]);
	return curl;
}

static void fetch(const struct ways *ways, int i)
{
	CURL *curl = handle_of(ways, i);

	CHECK(curl_easy_perform(curl) == CURLE_OK && received[i] == 5);
	curl_easy_cleanup(curl);
}

/* ---- the asynchronous interface ---- */

static CURLM *multi;
static int transfers_left;
static int64_t due = -1; /* in ns; -1: never */

static void note_ends(void)
{
	CURLMsg *message;
	int more;

	while ((message = curl_multi_info_read(multi, &more))) {
		CHECK(message->data.result == CURLE_OK);
		transfers_left--;
	}
}

static void ready(struct loop_watch *watch, uint32_t events)
{
	int running;

	curl_multi_socket_action(multi, watch->fd,
				 (events & ~(uint32_t)EPOLLOUT ? CURL_CSELECT_IN : 0) |
					 (events & EPOLLOUT ? CURL_CSELECT_OUT : 0),
				 &running);
	note_ends();
}

/* libcurl wants other events of a socket. */
static int watch_socket(CURL *curl, curl_socket_t fd, int what, void *arg, void *of_socket)
{
	static struct loop_watch watches[2 * MOST]; /* by descriptor */

	(void)curl, (void)arg, (void)of_socket;
	CHECK(fd < 2 * MOST);
	watches[fd].ready = ready;
	loop_wait_for(&watches[fd], fd,
		      what == CURL_POLL_REMOVE ? 0
					       : (what & CURL_POLL_IN ? EPOLLIN : 0u) |
							 (what & CURL_POLL_OUT ? EPOLLOUT : 0u));
	return 0;
}

static int set_timer(CURLM *of, long ms, void *arg)
{
	(void)of, (void)arg;
	due = ms < 0 ? -1 : sn_now() + ms * 1000000;
	return 0;
}

static int time_left(void)
{
	const int64_t left = due - sn_now();

	return due < 0 ? -1 : left < 0 ? 0 : (int)((left + 999999) / 1000000);
}

static void time_out(void)
{
	int running;

	due = -1;
	curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
	note_ends();
}

static void fetch_all(const struct ways *ways)
{
	const struct loop_timer timer = {time_left, time_out};
	static CURL *handles[MOST];

	multi = curl_multi_init();
	curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
	curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, set_timer);
	transfers_left = ways->n;
	for (int i = 0; i < ways->n; i++) {
		handles[i] = handle_of(ways, i);
		curl_multi_add_handle(multi, handles[i]);
	}
	loop_run(&transfers_left, &timer);
	for (int i = 0; i < ways->n; i++) {
		CHECK(received[i] == 5);
		curl_multi_remove_handle(multi, handles[i]);
		curl_easy_cleanup(handles[i]);
	}
	curl_multi_cleanup(multi);
}

int main(int argc, char **argv)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
	return ways_main(argc, argv, (struct ways){.job = fetch, .all = fetch_all});
}

/* Forwards IP packets between the hosts of a lab: one TUN device per host, all owned by this process.

   A packet passes the pipes of its way one after another, each a rate and a queue shared by everybody on it, then waits
   out the latency of its (source, target) pair. This is a discrete-event simulation kept in step with the wall clock:
   what follows from an event is timed from when it was due, not handled, so a late wake-up costs no rate.

   TCP segments stay joined (GSO) for speed. A joined packet counts what its segments would on an Ethernet, and enters
   the next pipe as soon as its first segment could, so its last byte arrives when it would have arrived alone.

   Where a pipe is busy its flows take turns (deficit round robin, idle flows first), as they do behind Linux's own
   fq_codel, in base stations and in most access points; what exceeds a flow's share of the queue is dropped.

   Orders come line by line on stdin (see router.py); end of input, or the owner's death, ends the process. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define FRAME 14             /* what Ethernet adds to each packet */
#define EARLY 100000         /* ns: what is due this soon is handled together */
#define WAKING 50000         /* ns: the timer rings this much ahead, because waking takes about as long */
#define LEAST_LAG 50000      /* ns: what happens inside may be handled later, if only deliveries are in time: */
#define MOST_LAG 300000      /* by as much as the shortest latency, within these bounds. It saves wake-ups */
#define LEAST_QUEUE 65536    /* bytes */
#define QUEUE_S 0.05         /* a longer queue holds this much of its rate */
#define LEAST_SHARE 20000    /* bytes of the queue that each flow may hold, however many they are */
#define TURN 3028            /* bytes that a flow may send before it is another's turn: two full frames */
#define MOST_HELD (512L << 20)
#define OWNER_CHECK 500000000L

enum { HOSTS = 256, FLOWS = 64, LARGEST = 65536 + 256 };

typedef struct { int count; int64_t latency; double loss; int pipes[]; } Route;
typedef struct Packet {
    struct Packet *next;
    Route *route;
    int stage, target, segments, flow;
    int64_t since;                    /* ns: when it came to the pipe where it waits */
    uint32_t length, wire, segment;   /* bytes: here, on the wire, of one segment on the wire */
    char data[];
} Packet;
typedef struct Flow {
    struct Flow *next;
    Packet *first, *last;
    int64_t queued, credit;           /* bytes */
    bool active;
} Flow;
typedef struct { Flow *first, *last; } Turns;
typedef struct {
    double rate;                      /* bytes/s; 0 is cut, infinite is no limit */
    int64_t free_at, event_at;        /* ns: done with the last packet; the event that counts, others are stale */
    Flow flows[FLOWS];                /* by hash */
    Turns fresh, old;
    int active;                       /* flows */
    uint64_t bytes, dropped;
} Pipe;
typedef struct { int64_t at; uint64_t order; Pipe *pipe; Packet *packet; } Event;
typedef struct { Event *events; int count, room; } Heap;

static int hosts[HOSTS];   /* their TUN devices */
static unsigned char subnet[3];   /* a host's index is the last byte of its address */
static Pipe **pipes;
static Route *routes[HOSTS][HOSTS];
static Heap inner, deliveries;
static int pipe_count, poller, timer;
static uint64_t order, unroutable, lost;
static int64_t held_bytes, armed, lag = MOST_LAG;
static uint64_t dice = 88172645463325252ULL;
static pid_t owner;

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("error ");
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    exit(1);
}

static int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static double chance(void) {   /* xorshift64* */
    dice ^= dice >> 12, dice ^= dice << 25, dice ^= dice >> 27;
    return (double)((dice * 2685821657736338717ULL) >> 11) / 9007199254740992.0;
}

/* -- events -------------------------------------------------------------------------------------------------------- */

static bool before(const Event *a, const Event *b) { return a->at != b->at ? a->at < b->at : a->order < b->order; }

static void schedule(Heap *heap, int64_t at, Pipe *pipe, Packet *packet) {
    if (heap->count == heap->room)
        heap->events = realloc(heap->events, sizeof(Event) * (heap->room = heap->room ? 2 * heap->room : 1024));
    Event event = {at, order++, pipe, packet};
    int i = heap->count++;
    for (int up; i && before(&event, &heap->events[up = (i - 1) / 2]); i = up) heap->events[i] = heap->events[up];
    heap->events[i] = event;
}

static Event pop(Heap *heap) {
    Event first = heap->events[0], moved = heap->events[--heap->count];
    int i = 0;
    for (int down; (down = 2 * i + 1) < heap->count; i = down) {
        if (down + 1 < heap->count && before(&heap->events[down + 1], &heap->events[down])) down++;
        if (!before(&heap->events[down], &moved)) break;
        heap->events[i] = heap->events[down];
    }
    heap->events[i] = moved;
    return first;
}

static int64_t due(const Heap *heap) { return heap->count ? heap->events[0].at : INT64_MAX; }

/* -- packets and pipes --------------------------------------------------------------------------------------------- */

static void forget(Packet *packet) { held_bytes -= packet->length; free(packet); }

static int64_t span(double bytes, double rate) { return (int64_t)(bytes / rate * 1e9); }   /* of an infinite rate: 0 */

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t room(const Pipe *pipe) { return later(LEAST_QUEUE, isinf(pipe->rate) ? 0 : pipe->rate * QUEUE_S); }

static void append(Turns *turns, Flow *flow) {
    flow->next = NULL;
    if (turns->first) turns->last->next = flow;
    else turns->first = flow;
    turns->last = flow;
}

static Flow *shift(Turns *turns) {
    Flow *flow = turns->first;
    turns->first = flow->next;
    return flow;
}

static bool fits(const Pipe *pipe, const Flow *flow, const Packet *packet) {
    int64_t share = later(LEAST_SHARE, room(pipe) / (pipe->active + !flow->active));
    return !flow->first || flow->queued + packet->wire <= share;
}

static void put(Pipe *pipe, Flow *flow, Packet *packet, int64_t at) {
    packet->next = NULL;
    packet->since = at;
    if (flow->first) flow->last->next = packet;
    else flow->first = packet;
    flow->last = packet;
    flow->queued += packet->wire;
    if (flow->active) return;
    flow->active = true;
    flow->credit = TURN;
    pipe->active++;
    append(&pipe->fresh, flow);
}

static Packet *pick(Pipe *pipe) {
    while (pipe->active) {
        bool new = pipe->fresh.first;
        Flow *flow = new ? pipe->fresh.first : pipe->old.first;
        Packet *packet = flow->first;
        if (packet && flow->credit > 0) {
            flow->first = packet->next;
            flow->queued -= packet->wire;
            flow->credit -= packet->wire;
            return packet;
        }
        shift(new ? &pipe->fresh : &pipe->old);
        if (packet) flow->credit += TURN;
        if (packet || (new && pipe->old.first)) append(&pipe->old, flow);   /* it had its turn among the fresh */
        else flow->active = false, pipe->active--;
    }
    return NULL;
}

static void wake(Pipe *pipe) {
    if (pipe->event_at != pipe->free_at) schedule(&inner, pipe->event_at = pipe->free_at, pipe, NULL);
}

static void serve(Pipe *pipe, Packet *packet, int64_t at) {
    Route *route = packet->route;
    int64_t done = at + span(packet->wire, pipe->rate), next = done;
    pipe->free_at = done;
    pipe->bytes += packet->wire;
    if (++packet->stage < route->count) {
        double onward = pipes[route->pipes[packet->stage]]->rate;
        int64_t behind = onward > 0 ? done - span(packet->wire - packet->segment, onward) : done;
        next = later(at + span(packet->segment, pipe->rate), behind);
    }
    schedule(&inner, next, NULL, packet);
    if (pipe->active) wake(pipe);
}

static void enter(Packet *packet, int64_t at) {
    Route *route = packet->route;
    if (packet->stage == route->count) {   /* through: now the latency, or the loss */
        if (route->loss > 0 && chance() < 1 - pow(1 - route->loss, packet->segments)) lost++, forget(packet);
        else schedule(&deliveries, at + route->latency, NULL, packet);
        return;
    }
    Pipe *pipe = pipes[route->pipes[packet->stage]];
    Flow *flow = &pipe->flows[packet->flow];
    if (pipe->rate > 0 && !pipe->active && pipe->free_at <= at) {
        serve(pipe, packet, at);
    } else if (pipe->rate > 0 && fits(pipe, flow, packet)) {
        put(pipe, flow, packet, at);
        wake(pipe);
    } else {
        pipe->dropped++;
        forget(packet);
    }
}

static void free_pipe(Pipe *pipe, int64_t at) {
    if (at != pipe->event_at) return;
    pipe->event_at = -1;
    Packet *packet = pick(pipe);
    if (packet) serve(pipe, packet, later(at, packet->since));
}

static void empty(Pipe *pipe) {
    for (Packet *packet; (packet = pick(pipe)); forget(packet)) pipe->dropped++;
}

/* -- hosts --------------------------------------------------------------------------------------------------------- */

static void measure(Packet *packet, const struct virtio_net_hdr *header, const unsigned char *ip, int length) {
    packet->segments = 1;
    packet->wire = packet->segment = length + FRAME;
    if (header->gso_type == VIRTIO_NET_HDR_GSO_NONE || !header->gso_size) return;
    int transport = (ip[0] & 15) * 4;
    int headers = transport + (ip[9] == 6 ? (ip[transport + 12] >> 4) * 4 : 8);
    int payload = length - headers;
    packet->segments = payload > 0 ? (payload + header->gso_size - 1) / header->gso_size : 1;
    packet->wire = payload + packet->segments * (headers + FRAME);
    packet->segment = header->gso_size + headers + FRAME;
}

/* Packets of one connection, one way, have one number; 64 numbers are enough that few share. */
static int flow_number(const unsigned char *ip, int length) {
    uint32_t words[3] = {0};
    int transport = (ip[0] & 15) * 4;
    bool whole = !((ip[6] & 0x3f) | ip[7]);   /* fragments have no ports but the first */
    memcpy(words, ip + 12, 8);
    if (whole && (ip[9] == 6 || ip[9] == 17) && length >= transport + 4) memcpy(words + 2, ip + transport, 4);
    uint32_t mixed = (words[0] * 2654435761u ^ words[1]) * 2246822519u ^ (words[2] + ip[9]) * 3266489917u;
    return (mixed ^ mixed >> 15) * 668265263u >> 26;
}

static bool read_packet(int source) {   /* one packet into its first pipe; false when there is none */
    static char buffer[LARGEST];
    const int skip = sizeof(struct virtio_net_hdr);
    int length = read(hosts[source], buffer, sizeof buffer);
    if (length < 0 && errno != EAGAIN && errno != EINTR)   /* its namespace is gone */
        epoll_ctl(poller, EPOLL_CTL_DEL, hosts[source], NULL);
    if (length <= 0) return false;
    unsigned char *ip = (unsigned char *)buffer + skip;
    if (length < skip + 20 || ip[0] >> 4 != 4) return true;
    Route *route = memcmp(ip + 16, subnet, 3) ? NULL : routes[source][ip[19]];
    if (!route || held_bytes > MOST_HELD) { unroutable++; return true; }
    Packet *packet = malloc(sizeof *packet + length);
    *packet = (Packet){.route = route, .target = ip[19], .length = length, .flow = flow_number(ip, length - skip)};
    memcpy(packet->data, buffer, length);
    measure(packet, (struct virtio_net_hdr *)buffer, ip, length - skip);
    held_bytes += length;
    enter(packet, clock_ns());
    return true;
}

static void read_host(int source) {
    for (int i = 0; i < 64 && read_packet(source); i++) {}
}

static void deliver(Packet *packet) {
    if (write(hosts[packet->target], packet->data, packet->length) < 0) unroutable++;
    forget(packet);
}

static void handle_events(void) {
    for (int64_t until = clock_ns() + EARLY;;) {
        if (due(&inner) <= until && due(&inner) <= due(&deliveries)) {
            Event event = pop(&inner);
            if (event.pipe) free_pipe(event.pipe, event.at);
            else enter(event.packet, event.at);
        } else if (due(&deliveries) <= until) {
            deliver(pop(&deliveries).packet);
        } else {
            return;
        }
    }
}

/* -- orders -------------------------------------------------------------------------------------------------------- */

static int open_tun(const char *name) {
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    snprintf(request.ifr_name, IFNAMSIZ, "%s", name);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) fail("cannot open /dev/net/tun: %s", strerror(errno));
    if (ioctl(fd, TUNSETIFF, &request) < 0) fail("cannot make TUN device %s: %s", name, strerror(errno));
    if (ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) < 0) fail("no offload on TUN: %s", strerror(errno));
    return fd;
}

static void add_host(int index, const char *name, const char *space) {
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (strcmp(space, "-")) {
        int there = open(space, O_RDONLY | O_CLOEXEC);
        if (there < 0 || setns(there, CLONE_NEWNET) < 0) fail("cannot enter %s: %s", space, strerror(errno));
        close(there);
    }
    hosts[index] = open_tun(name);
    if (setns(home, CLONE_NEWNET) < 0) fail("cannot return: %s", strerror(errno));
    close(home);
    struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = index};
    epoll_ctl(poller, EPOLL_CTL_ADD, hosts[index], &wanted);
}

static void add_pipe(double rate) {
    pipes = realloc(pipes, sizeof *pipes * (pipe_count + 1));
    Pipe *pipe = pipes[pipe_count++] = calloc(1, sizeof *pipe);
    pipe->rate = rate;
    pipe->event_at = -1;
}

static void set_route(int source, int target, double latency_s, double loss, char *list) {
    int found[64], count = 0;
    for (char *part = strtok(list, ","); part && *part != '-' && count < 64; part = strtok(NULL, ","))
        found[count++] = atoi(part);
    Route *route = malloc(sizeof *route + sizeof(int) * count);   /* the old one may still have packets: never freed */
    *route = (Route){.count = count, .latency = latency_s * 1e9, .loss = loss};
    memcpy(route->pipes, found, sizeof(int) * count);
    routes[source][target] = route;
    if (count && route->latency < lag) lag = later(route->latency, LEAST_LAG);
}

static void set_rate(Pipe *pipe, double rate) {
    int64_t now = clock_ns();
    if (pipe->free_at > now && rate > pipe->rate)   /* who waits behind the packet in service gains from the new rate */
        pipe->free_at = now + (pipe->free_at - now) * (pipe->rate / rate);
    pipe->rate = rate;
    if (rate <= 0) empty(pipe);
    if (pipe->active) wake(pipe);
}

static void print_stats(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double seconds = used.ru_utime.tv_sec + used.ru_stime.tv_sec;
    seconds += (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    printf("{\"cpu_s\":%.6f,\"lost\":%lu,\"unroutable\":%lu,\"bytes\":[", seconds, lost, unroutable);
    for (int i = 0; i < pipe_count; i++) printf("%s%lu", i ? "," : "", pipes[i]->bytes);
    printf("],\"dropped\":[");
    for (int i = 0; i < pipe_count; i++) printf("%s%lu", i ? "," : "", pipes[i]->dropped);
    printf("]}\n");
}

static void obey(char *line) {
    uint8_t a, b;   /* hosts */
    int number;
    double x, y;
    char name[IFNAMSIZ], text[4096];
    if (sscanf(line, "net %hhu.%hhu.%hhu", subnet, subnet + 1, subnet + 2) == 3) return;
    if (sscanf(line, "host %hhu %15s %4095s", &a, name, text) == 3) add_host(a, name, text);
    else if (sscanf(line, "pipe %lf", &x) == 1) add_pipe(x);
    else if (sscanf(line, "route %hhu %hhu %lf %lf %4095s", &a, &b, &x, &y, text) == 5) set_route(a, b, x, y, text);
    else if (sscanf(line, "rate %d %lf", &number, &x) == 2) set_rate(pipes[number], x), puts("ok");
    else if (sscanf(line, "seed %lu", &dice) == 1) dice = dice * 2 + 88172645463325253ULL;
    else if (!strcmp(line, "stats")) print_stats();
    else if (!strcmp(line, "ready")) puts("ok");
    else fail("unknown order: %s", line);
    fflush(stdout);
}

static void read_orders(void) {
    static char text[1 << 16];
    static int held;
    int got = read(0, text + held, sizeof text - 1 - held);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) exit(0);
    text[held += got] = 0;
    char *line = text;
    for (char *end; (end = strchr(line, '\n')); line = end + 1) *end = 0, obey(line);
    memmove(text, line, held -= line - text);
}

static void set_timer(int64_t now) {
    int64_t at = due(&inner) == INT64_MAX ? INT64_MAX : due(&inner) + lag;
    if (at > due(&deliveries)) at = due(&deliveries);
    at -= WAKING;
    if (at > now + OWNER_CHECK) at = now + OWNER_CHECK;
    if (at == armed) return;
    struct itimerspec when = {.it_value = {at / 1000000000L, at % 1000000000L}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
    armed = at;
}

static void claim_priority(void) {
    struct sched_param level = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_RR, &level) < 0) setpriority(PRIO_PROCESS, 0, -10);
    prctl(PR_SET_TIMERSLACK, 1000);
}

int main(void) {
    enum { TIMER = HOSTS, ORDERS };
    owner = getppid();
    claim_priority();
    poller = epoll_create1(EPOLL_CLOEXEC);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    fcntl(0, F_SETFL, O_NONBLOCK);
    struct epoll_event on_timer = {.events = EPOLLIN | EPOLLET, .data.u32 = TIMER};   /* edge: it need not be read */
    struct epoll_event on_orders = {.events = EPOLLIN, .data.u32 = ORDERS};
    epoll_ctl(poller, EPOLL_CTL_ADD, timer, &on_timer);
    epoll_ctl(poller, EPOLL_CTL_ADD, 0, &on_orders);
    for (struct epoll_event found[64];;) {
        set_timer(clock_ns());
        int count = epoll_wait(poller, found, 64, -1);
        handle_events();
        for (int i = 0; i < count; i++) {
            if (found[i].data.u32 == TIMER) { if (getppid() != owner) return 0; armed = 0; }
            else if (found[i].data.u32 == ORDERS) read_orders();
            else read_host(found[i].data.u32);
        }
        handle_events();
    }
}

import { monitorEventLoopDelay } from 'node:perf_hooks'
import { runtimeVersion } from '../base/version.ts'
import type { Registry } from './registry.ts'

const nanoseconds = 1e9
/** How often the loop is looked at; Node counts the time between two looks. */
const lookMs = 20
const microseconds = 1e6

/** The figures of the process, under the names that everybody's dashboards have. */
export class ProcessMetrics {
  readonly #lag = monitorEventLoopDelay({ resolution: lookMs })

  constructor(registry: Registry) {
    const gauge = (name: string, help: string, labels?: readonly string[]) =>
      registry.make({ kind: 'gauge', name, help, labels })
    const info = gauge('oracle_build_info', 'The versions of the runtime and of Node; always 1.', [
      'version',
      'node',
    ])
    info.set(1, { version: runtimeVersion, node: process.versions.node })
    const started = gauge('process_start_time_seconds', 'When the process started, since 1970.')
    started.set(Math.round(performance.timeOrigin / 10) / 100)
    const cpu = registry.make({
      kind: 'counter',
      name: 'process_cpu_seconds_total',
      help: 'CPU time of the process.',
    })
    const memory = gauge('process_resident_memory_bytes', 'Memory of the process.')
    const heap = gauge('nodejs_heap_size_used_bytes', 'Heap that is in use.')
    const heapTotal = gauge('nodejs_heap_size_total_bytes', 'Heap that is reserved.')
    const external = gauge('nodejs_external_memory_bytes', 'Memory outside of the heap.')
    const lag = gauge(
      'oracle_loop_lag_seconds',
      'How late the event loop was since the last reading.',
      ['share'],
    )
    let spent = 0
    registry.beforeReading(() => {
      const { user, system } = process.cpuUsage()
      const now = (user + system) / microseconds
      cpu.add(undefined, now - spent)
      spent = now
      const { rss, heapUsed, heapTotal: reserved, external: outside } = process.memoryUsage()
      memory.set(rss)
      heap.set(heapUsed)
      heapTotal.set(reserved)
      external.set(outside)
      for (const share of [50, 99, 100]) {
        const late = Math.max(0, this.#lag.percentile(share) / nanoseconds - lookMs / 1000)
        lag.set(late, { share: String(share / 100) })
      }
      this.#lag.reset()
    })
  }

  /** Begins to watch the event loop: once the server listens, so that the boot does not count. */
  open(): void {
    this.#lag.enable()
  }

  close(): void {
    this.#lag.disable()
  }
}

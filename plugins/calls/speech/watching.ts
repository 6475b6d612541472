import type { Hearing, Spoken, Voice } from './port.ts'

/** Remembers whether what hears and what speaks worked when it was last asked, for `/health`. */
export class SpeechWatch {
  readonly #faults = new Map<'hearing' | 'voice', string>()

  /** What is wrong now; undefined when both worked. */
  get fault(): string | undefined {
    const faults = [...this.#faults.values()]
    return faults.length === 0 ? undefined : faults.join(' ')
  }

  hearing(port: Hearing): Hearing {
    return {
      ...{ name: port.name, where: port.where },
      open: (options) => {
        const open = port.open(options)
        return {
          push: (pcm) => open.push(pcm),
          pause: () => open.pause?.(),
          goOn: () => open.goOn?.(),
          drop: () => open.drop?.(),
          end: async () => {
            try {
              const understood = await open.end()
              this.#faults.delete('hearing')
              return understood
            } catch (error) {
              if (!options.signal.aborted) this.#failed('hearing', port.name, error)
              throw error
            }
          },
        }
      },
    }
  }

  voice(port: Voice): Voice {
    const { name, where, voices } = port
    return {
      ...{ name, where, ...(voices && { voices }) },
      speak: (text, options) => this.#speak(port, text, options),
    }
  }

  async *#speak(
    port: Voice,
    ...[text, options]: Parameters<Voice['speak']>
  ): AsyncIterable<Spoken> {
    try {
      yield* port.speak(text, options)
      this.#faults.delete('voice')
    } catch (error) {
      if (!options.signal.aborted) this.#failed('voice', port.name, error)
      throw error
    }
  }

  #failed(what: 'hearing' | 'voice', name: string, error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error)
    this.#faults.set(what, `The ${what} of calls (${name}) failed last time: ${reason}`)
  }
}

import type { KernelEnv } from '../manifest/kernel-env.ts'
import type { Addresses } from './auth/registration.ts'

/** Where the server listens, and where it tells clients to find it. */
export class OwnAddresses {
  readonly #config: KernelEnv
  /** Where the server listens, once it does. */
  #url: string | undefined

  constructor(config: KernelEnv) {
    this.#config = config
  }

  /** The host on which the server listens by default: in production, which serves others, every address of the machine. */
  get host(): string {
    const { HOST, NODE_ENV } = this.#config
    return HOST ?? (NODE_ENV === 'production' ? '0.0.0.0' : '127.0.0.1')
  }

  /** The addresses that the server tells clients. They never come from a Host header, which the client writes itself. */
  get told(): Addresses {
    const { PUBLIC_URL, PORT } = this.#config
    const apiUrl = (PUBLIC_URL ?? this.#url ?? `http://${this.host}:${PORT}`).replace(/\/$/, '')
    return { apiUrl, wsUrl: apiUrl.replace(/^http/, 'ws') }
  }

  /** Whether a browser page of this origin comes from the server itself. */
  isOwnOrigin(origin: string): boolean {
    return origin === new URL(this.told.apiUrl).origin || origin === this.#url
  }

  /** Notes that the server has begun to listen at this URL. */
  listensAt(url: string): void {
    this.#url = url
  }
}

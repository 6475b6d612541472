import type { Engine } from '../turns/run.ts'
import type { Agent, AgentOptions } from './agent.ts'

/** An agent that loads its code with its first use: no start needs what only turns need. */
export class LazyAgent implements Omit<Agent, never> {
  readonly #options: AgentOptions
  #made: Agent | undefined
  #making: Promise<Agent> | undefined

  constructor(options: AgentOptions) {
    this.#options = options
  }

  /** Loads the agent and LangGraph, as `Agent` does. */
  async warm(): Promise<void> {
    await (await this.#load()).warm()
  }

  /** Takes in a plugin whose setup finished late. An agent that is made after that finds the plugin by itself. */
  join(): void {
    this.#made?.join()
  }

  /** Carries out one run, as `Agent` does. */
  readonly engine: Engine = async (run) => (await this.#load()).engine(run)

  /** What an answer cost of which only the words are left, as `Agent` judges it. */
  async usageOf(...asked: Parameters<Agent['usageOf']>) {
    return (await this.#load()).usageOf(...asked)
  }

  /** Loads capabilities because a caller asks, as `Agent` does. */
  async load(...asked: Parameters<Agent['load']>) {
    return (await this.#load()).load(...asked)
  }

  /** What `GET /capabilities` answers, as `Agent` finds it. */
  async capabilities(...asked: Parameters<Agent['capabilities']>) {
    return (await this.#load()).capabilities(...asked)
  }

  /** Has the agent read a conversation again, as `Agent` does. */
  unlearn(sessionId: string): void {
    this.#made?.unlearn(sessionId)
  }

  /** Removes what the agent keeps of a session, as `Agent` does. */
  async forget(sessionId: string): Promise<void> {
    await (await this.#load()).forget(sessionId)
  }

  /** The agent, loaded once. */
  #load(): Promise<Agent> {
    this.#making ??= import('./agent.ts').then(
      ({ Agent }) => (this.#made = new Agent(this.#options)),
    )
    return this.#making
  }
}

import { setTimeout as pause } from 'node:timers/promises'
import type { Engine } from '../turns/run.ts'
import { RuntimeError } from '../../errors.ts'
import { importInPieces } from '../idle/import-in-pieces.ts'
import { Walk } from '../model/chain.ts'
import { knownModel } from '../model/opened-later.ts'
import type { Agent, AgentOptions } from './agent.ts'

/** How long the process answers others between two steps. */
const pauseMs = 10

/** What a turn imports: our own files where they are files, and the engine. */
const engineFiles = [
  './agent.ts',
  '@langchain/core/singletons',
  '@langchain/core/runnables',
  '@langchain/langgraph-checkpoint',
  '@langchain/langgraph/channels',
  '@langchain/langgraph/pregel',
  '@langchain/langgraph',
  './state/graph.ts',
]

/** An agent that loads its code with its first use: no start needs what only turns need. */
export class LazyAgent implements Omit<Agent, 'practise'> {
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

  /**
   * The same in pieces, between which the process does other work, for as long as `goesOn` says so. In the end the engine has
   * practised: what runs for the first time, Node compiles first.
   */
  async warmInPieces(goesOn: () => boolean): Promise<void> {
    await importInPieces(engineFiles, import.meta.url, goesOn)
    const steps = [
      () => this.#load(),
      () => this.warm(),
      () => this.#openModel(),
      async () => (await this.#load()).practise(),
    ]
    for (const step of steps) {
      if (!goesOn()) return
      await step()
      await pause(pauseMs, undefined, { ref: false })
    }
  }

  /** Opens the model that answers by default: its wire is loaded as well. What keeps it shut is told to the first turn. */
  async #openModel(): Promise<void> {
    try {
      await knownModel(new Walk(this.#options.model(), undefined).model)
    } catch (error) {
      if (!(error instanceof RuntimeError)) throw error // there is no model, as every turn says
    }
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

  /** What a branch begins with, as `Agent` makes it. */
  async headOf(...asked: Parameters<Agent['headOf']>) {
    return (await this.#load()).headOf(...asked)
  }

  /** What a session had kept at a step, as `Agent` finds it. */
  async stateAt(...asked: Parameters<Agent['stateAt']>) {
    return (await this.#load()).stateAt(...asked)
  }

  /** What `GET /capabilities` answers, as `Agent` finds it. */
  async capabilities(...asked: Parameters<Agent['capabilities']>) {
    return (await this.#load()).capabilities(...asked)
  }

  /** What the next call of a model would be sent, as `Agent` puts it together. */
  async promptOf(...asked: Parameters<Agent['promptOf']>) {
    return (await this.#load()).promptOf(...asked)
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

import { BaseChatModel, type BindToolsInput } from '@langchain/core/language_models/chat_models'
import { AIMessage, AIMessageChunk, type BaseMessage } from '@langchain/core/messages'
import { ChatGenerationChunk, type ChatResult } from '@langchain/core/outputs'

type Fields = ConstructorParameters<typeof AIMessageChunk>[0]
type Speak = (signal?: AbortSignal) => AsyncIterable<Fields> | Iterable<Fields>

/** A chat model as LangChain's integrations are made, without a provider behind it. */
export class FakeChat extends BaseChatModel {
  model = 'fake-1'
  heard: { messages: BaseMessage[]; tools: unknown[] }[] = []
  #speak: Speak
  #tools: unknown[] = []

  constructor(speak: Speak) {
    super({})
    this.#speak = speak
  }
  _llmType() {
    return 'fake'
  }
  override bindTools(tools: BindToolsInput[]) {
    this.#tools = tools
    return this
  }
  async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    this.heard.push({ messages, tools: this.#tools })
    for await (const fields of this.#speak())
      return { generations: [{ text: '', message: new AIMessage(fields as string) }] }
    throw new Error('nothing to say')
  }
  override async *_streamResponseChunks(
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
  ): AsyncGenerator<ChatGenerationChunk> {
    this.heard.push({ messages, tools: this.#tools })
    for await (const fields of this.#speak(options.signal))
      yield new ChatGenerationChunk({ text: '', message: new AIMessageChunk(fields) })
  }
}

/** A chat model that only answers whole. */
export class WholeChat extends FakeChat {
  override _streamResponseChunks = BaseChatModel.prototype._streamResponseChunks
}

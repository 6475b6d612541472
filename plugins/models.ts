import aiSdk from './models-ai-sdk/index.ts'
import anthropic from './models-anthropic/index.ts'
import demo from './models-demo/index.ts'
import google from './models-google/index.ts'
import ollama from './models-ollama/index.ts'
import openai from './models-openai/index.ts'

/** The plugins that bring models, as the package adds them to an app that brings none. */
export const models = [demo, openai, anthropic, google, ollama, aiSdk]
